"""From a recording or an image of a website to a site, measured against it."""
