"""``python -m staticflow``: see `staticflow.tools.cli`."""

import sys

from staticflow.tools.cli import main

sys.exit(main())
