"""Claims from numbers and events: detectors, mechanisms, localisation, incidents, explanation."""
