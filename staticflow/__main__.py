"""``python -m staticflow`` runs the command line, `staticflow.tools.cli`."""

import sys

from staticflow.tools.cli import main

sys.exit(main())
