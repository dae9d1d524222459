"""Conversion of images and videos to the model's input sizes.

processor = Processor.load(model_dir)
processor.image(png_bytes)                      # MediaItem
processor.video(mp4_bytes)                      # (("00:00:00.000", MediaItem), ...)
processor.count_tokens(1920, 1080)              # 2691
"""
