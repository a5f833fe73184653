"""Exporter series as columns of the telemetry schema (sickbay/schema.py): a file a vendor, one more for the host's own.

Of a file:
  name        the vendor
  pci         its ids on the bus (pci.ids), lower case; empty where no list that could be read has one
  drivers     its kernel modules
  rest        why the accelerator columns that neither an exporter nor `absent` names are not available
  absent      columns that are not available for a reason of their own: reason -> columns
  unread      what else there is of the vendor, and why it is not read
Of an exporter (`exporters.NAME`), or of a tool whose JSON is read (`tools.NAME`, its rows are paths of keys):
  source      where names and units were read
  table       the table of its rows
  pci uuid index serial device model    labels that hold a device's names, the first non-empty one counts
  port        labels that together name a port; spellings of one label apart by |
  partition   labels that mark a slice of a device; whole = values of them that still mean the whole device
  least       of all series that say nothing else: values below are not measurements
  jobs ports  words in the scrape job's name, and listening ports that nobody else uses, that tell that such an exporter
              was away; never whose
  prefixes    what sites put before its names
  numbered    numbers that end its names and stand for a part of the device (ports 0 to 15 of two dies: [2, 16]): the
              component is that part
Of a series (`exporters.NAME.metrics`):
  to          the column; absent = only an event is made of it
  unit        of a tool: the unit that must stand with the value
  factor      multiplies the exporter's unit into ours
  convert     dbm: 10 log10 of milliwatts; positive: above 0 is 1; zero_is_good: 0 is 1, all else 0; percent_or_ratio:
              see collectors/formats/metric_names
  values      what each value becomes; one not listed is missing
  least       values below are not measurements ("failed", "unknown")
  saturates   the value on which the counter sticks: it counts no more, so it is missing
  where       labels a series must have
  sum_over    labels whose series are parts of one number
  names       its labels name the device; its value is nothing
  code        an event of it: how its value (%d, %X) or its label `code_label` (%s) becomes the vendor's code
  codes       the table that knows the code: xid (one of the hardware is worth watching), ascend
  while_there the series is there only while its fault is: it speaks of now
  told        what single values say (the value, "&64" a bit in it, ">0" any above): kind, code and advice of an event;
              `stands` where the device says it of now, `alone` for what detectors judge where time is told
  rises       what a value says that is higher than in the scrape before
  also        further names of the same series
"""
