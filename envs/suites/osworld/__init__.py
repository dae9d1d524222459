"""OSWorld-Verified: 369 tasks on a real desktop, run on a guest machine that is controlled over HTTP.

Source: https://os-world.github.io; Xie et al. 2024, arXiv:2404.07972. The task files are from xlang-ai/OSWorld
(Apache-2.0, `data/LICENSE.upstream`), unmodified.
"""
