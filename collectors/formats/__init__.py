"""Formats: text or bytes in, records out. Pure, streaming, constant memory; no clock, no I/O, never an exception.

Two families. *Documents* (a scrape, a `query_range` answer, `scontrol show node`, a dump) have a module with
`confidence(head)` and `read(chunks)`. *Log lines* of any origin go through one reader, `log`: an envelope grammar
takes stamp, host and origin off the line, and every body grammar in `bodies/` is offered what remains.
"""

DOCUMENTS: dict[str, str] = {
    "amd_smi_json": "collectors.formats.amd_smi_json",
    "disk_log": "collectors.formats.disk_log",
    "elastic_error": "collectors.formats.elastic_error",
    "flight_recorder": "collectors.formats.flight_recorder",
    "ibnetdiscover": "collectors.formats.ibnetdiscover",
    "inventory": "collectors.formats.inventory",
    "kubernetes_describe": "collectors.formats.kubernetes_describe",
    "kubernetes_list": "collectors.formats.kubernetes_list",
    "kubernetes_pods_table": "collectors.formats.kubernetes_pods_table",
    "link_text": "collectors.formats.link_text",
    "lldp_text": "collectors.formats.lldp_text",
    "management_log": "collectors.formats.management_log",
    "optic_text": "collectors.formats.optic_text",
    "port_counters": "collectors.formats.port_counters",
    "prometheus_range": "collectors.formats.prometheus_range",
    "prometheus_text": "collectors.formats.prometheus_text",
    "readings_csv": "collectors.formats.readings_csv",
    "redfish": "collectors.formats.redfish",
    "slurm_show": "collectors.formats.slurm_show",
    "slurm_table": "collectors.formats.slurm_table",
    "slurm_topology": "collectors.formats.slurm_topology",
    "switch_tables": "collectors.formats.switch_tables",
    "sysfs_listing": "collectors.formats.sysfs_listing",
}
LOG = "collectors.formats.log"
