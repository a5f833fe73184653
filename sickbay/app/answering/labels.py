"""The fixed words of the terminal, in English and Chinese."""

_LABELS: dict[str, dict[str, str]] = {
    "en": {
        "no_incident": "No incident: nothing here needs doing.",
        "no_verdict": "Nothing was understood: this says nothing about the health of anything.",
        "no_incident_known": "No incident in what was understood; not all of it was.",
        "sure": "P",
        "do": "do",
        "approval": "asks first",
        "onset": "since",
        "unknown_time": "unknown time",
        "because": "because",
        "against": "against",
        "more": "more lines",
        "rivals": "or else",
        "test": "what would settle it",
        "name_host": "? stands for a host or job that the input does not name: --host NAME names the host.",
        "inputs": "inputs understood",
        "records": "records",
        "unparsed": "parts not understood",
        "omitted": "events left out, the worst kept",
    },
    "zh": {
        "no_incident": "没有事件：无需处理。",
        "no_verdict": "没有可识别的输入：无法判断任何部件的健康状况。",
        "no_incident_known": "已识别的部分中没有事件，但并非全部输入都被识别。",
        "sure": "概率",
        "do": "处理",
        "approval": "需批准",
        "onset": "起始",
        "unknown_time": "时间未知",
        "because": "依据",
        "against": "反证",
        "more": "行未显示",
        "rivals": "其他可能",
        "test": "可判定的测试",
        "name_host": "? 代表输入中未写明的主机或作业：可用 --host 指定主机名。",
        "inputs": "个输入已识别",
        "records": "条记录",
        "unparsed": "处未识别",
        "omitted": "个事件未列出，保留最严重者",
    },
}


def labels(lang: str) -> dict[str, str]:
    """The words of `lang`, English where it is not known."""
    return _LABELS.get(lang, _LABELS["en"])
