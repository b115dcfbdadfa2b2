"""Small programs by topic. Each is run natively and through the evaluator.

A program prints, returns or raises; it must not depend on addresses or the time.
"""

import programs_classes
import programs_flow
import programs_scopes
import programs_values

PROGRAMS = programs_values.PROGRAMS + programs_flow.PROGRAMS + programs_classes.PROGRAMS + programs_scopes.PROGRAMS
