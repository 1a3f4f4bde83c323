# SPDX-License-Identifier: MIT
"""What `import cuda_link` finds where this folder is on the path: sluice.cuda_link, in its place."""
from sluice.cuda_link import install

install()
