"""Building a website from a recording or an image, and measuring the result against it."""
