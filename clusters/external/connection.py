"""The connection to an external cluster: an admin client of librdkafka, and error texts when there is none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout  # a class of its own before Python 3.11
from typing import Any, TypeVar

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from fencepost.harness.api import ClusterError
from fencepost.harness.secrets import judged, mask, resolve
from fencepost.harness.system.client_settings import OBJECTS, passive

ANSWER_S = 10.0  # for the first answer
REQUEST_S = 10.0
_LOOK_S = 0.1
_MOST_ERRORS = 20
_EMERGENCIES = 0
_HOPELESS = (ck.KafkaError._AUTHENTICATION, ck.KafkaError.SASL_AUTHENTICATION_FAILED, ck.KafkaError._SSL)
OURS = ("bootstrap.servers", "metadata.broker.list", "client.id", "group.id", "transactional.id", "error_cb")

T = TypeVar("T")


class Connection:
    """An admin client. `settings` are librdkafka's, secrets as references; each failure is a ClusterError without them.

    Raises CampaignError when a secret cannot be found.
    """

    def __init__(self, bootstrap: str, settings: Mapping[str, Any]) -> None:
        self.bootstrap = bootstrap
        self._errors: deque[ck.KafkaError] = deque(maxlen=_MOST_ERRORS)
        self._given = settings
        try:
            self.client = AdminClient({**self.settings(), "error_cb": self._errors.append})
        except (ck.KafkaException, TypeError, ValueError, AttributeError) as error:
            raise ClusterError(f"no client can be made for {bootstrap}: {_exception_text(error)}") from None

    def settings(self) -> dict[str, Any]:
        """The settings that connect a client of librdkafka, secrets looked up."""
        quiet = {"log_level": _EMERGENCIES, "reconnect.backoff.max.ms": 1000}  # errors come by `error_cb`
        return {**quiet, **resolve(self._given), "bootstrap.servers": self.bootstrap, "client.id": "fencepost-admin"}

    def nodes(self) -> dict[int, str]:
        """The brokers in service: Kafka's node id -> host:port. Raises ClusterError after 10 s, or when it is turned away."""
        self._errors.clear()
        reply = self.client.describe_cluster(request_timeout=ANSWER_S)
        while not reply.done():
            self.client.poll(_LOOK_S)  # delivers librdkafka's errors
            if refused := next((error for error in self._errors if error.code() in _HOPELESS), None):
                raise ClusterError(f"{self.bootstrap} turned us away: {_text(refused)}; look at the cluster's `settings`")
        try:
            return {node.id: f"{node.host}:{node.port}" for node in reply.result().nodes}
        except ck.KafkaException as error:
            errors = [error for error in self._errors if error.code() != ck.KafkaError._ALL_BROKERS_DOWN]
            last = _text(errors[-1]) if errors else _exception_text(error)
            raise ClusterError(
                f"no answer from {self.bootstrap} within {ANSWER_S:.0f} s; last seen: {last}. Are `bootstrap` and the "
                "security.protocol of `settings` right, and is there a way to every broker?"
            ) from None

    def ask(self, what: str, request: Callable[[AdminClient], Future[T]]) -> T:
        """One answer. Raises RequestRefused, or ClusterError when none comes: "could not `what`: ..."."""
        self.client.poll(0)
        try:
            return request(self.client).result(timeout=2 * REQUEST_S)
        except ck.KafkaException as error:
            raise RequestRefused(f"could not {what}: {_exception_text(error)}", error.args[0].code()) from None
        except FutureTimeout:
            raise ClusterError(f"could not {what}: no answer within {2 * REQUEST_S:.0f} s") from None


class RequestRefused(ClusterError):
    """The answer was an error; `code` is librdkafka's, below zero when it gave up itself."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    @property
    def by_the_cluster(self) -> bool:
        """Return whether a broker refused it, so that surely nothing was done."""
        return self.code > 0 and self.code != ck.KafkaError.REQUEST_TIMED_OUT


def refusal(settings: Mapping[str, Any]) -> str:
    """The reason why librdkafka makes no client of these settings, whatever their secrets and files; empty when it does."""
    if objects := sorted(settings.keys() & set(OBJECTS)):
        return f"{', '.join(objects)} takes an object of Python, which no campaign can give"
    try:
        AdminClient({**passive(judged(settings)), "log_level": 0})
    except ck.KafkaException as error:
        return f"librdkafka says: {_exception_text(error)}"
    except (TypeError, ValueError, AttributeError) as error:  # a callback that is a text
        return f"librdkafka says: {error}"
    return ""


def _exception_text(error: Exception) -> str:
    return _text(error.args[0]) if isinstance(error, ck.KafkaException) else mask(str(error))


def _text(error: ck.KafkaError) -> str:
    return mask(error.str().strip())
