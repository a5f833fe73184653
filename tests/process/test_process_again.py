"""A part that fails again while its incident stands: the incident goes into the log once more, with the new sign."""

from sickbay import messages
from sickbay.app.asking.incidents_topic import told
from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.log import tick
from sickbay.log.memory import MemoryLog
from sickbay.messages import Incident, newest_sign_ms
from sickbay.topics import INCIDENTS
from tests.process.kit import SMALL, Agent, card, lost_card, only

START = 1_796_000_000_000


def test_a_second_loss_of_the_same_card_is_written_with_its_time() -> None:
    now = [START]
    log = MemoryLog(SMALL, clock=lambda: now[0], seed=1)
    agent, diagnoser = Agent("n1", log.appender(), key=None), Diagnoser(log)
    losses = (10, 200)
    for second in range(220):
        now[0] = START + second * 1000
        if second in losses:
            agent.say(lost_card("n1", now[0]))
        tick(log.appender(), log.topics, ["sickbay.events.v1", "sickbay.features.v1", "sickbay.steps.v1"])
        diagnoser.drain(now[0])
    written = [one for record in only(log, INCIDENTS) if isinstance(one := told(record.value or b""), Incident)]
    assert {one.id for one in written} == {written[0].id}
    assert {one.component for one in written} == {card("n1")}
    assert [newest_sign_ms(one) for one in written] == [START + 10_000, START + 200_000]
    assert messages.decode(messages.encode(written[-1])) == written[-1]
