# %% [markdown]
# # A run as data
#
# Cells for a notebook (VS Code, Spyder, `jupytext --to notebook run_as_data.py`), or a program:
# `RUN=latest python run_as_data.py`. docs/run-as-data.md says what there is.

# %%
import os

import networkx as nx
import pandas as pd

import fencepost

RUN = os.environ.get("RUN", "latest")  # a directory, an id, or `latest`
WITH_SPARK = os.environ.get("WITH_SPARK") == "1"

run = fencepost.open(RUN)
print(run)
print(run.verdict.get("reason", "not judged"))

# %% [markdown]
# ## Operations by outcome
#
# A row per operation. Times are ns of a clock that nobody sets; `run.origin_ns` is the zero of the report.

# %%
history = run.history()
outcomes = history.groupby(["f", "type"]).size().unstack(fill_value=0)
print(outcomes)

# %% [markdown]
# ## Latency, fault by fault
#
# Of all successful transactions and sends that overlap a fault, and of those that overlap none.

# %%
writes = history[history["f"].isin(["txn", "send"]) & (history["type"] == "ok") & history["end"].notna()]
writes = writes.assign(took_ms=(writes["end"] - writes["time"]).astype("float64") / 1e6)
last = int(history[["time", "end"]].max().max()) if len(history) else run.origin_ns


def summary(some: pd.Series) -> dict[str, float]:
    return {"operations": len(some), "p50_ms": some.median(), "p99_ms": some.quantile(0.99)}


rows, quiet = [], pd.Series(True, index=writes.index)
for fault in run.faults:
    if fault.injected_ns is None:
        continue
    until = fault.healed_ns or last
    during = (writes["time"] <= until) & (writes["end"] >= fault.injected_ns)
    at_s = (fault.injected_ns - run.origin_ns) / 1e9
    rows.append({"fault": f"{fault.id} {fault.kind}", "at_s": at_s, "lasts_s": (until - fault.injected_ns) / 1e9})
    rows[-1] |= summary(writes.loc[during, "took_ms"])
    quiet &= ~during
rows.append({"fault": "none", **summary(writes.loc[quiet, "took_ms"])})
latency = pd.DataFrame(rows).set_index("fault").round(1)
print(latency)

# %% [markdown]
# ## Errors by call

# %%
errors = run.history(["index", "errors"]).explode("errors").dropna(subset=["errors"])
by_call = pd.DataFrame(errors["errors"].tolist(), columns=["call", "name"]).value_counts()
print(by_call)

# %% [markdown]
# ## Findings, and what lies around the first
#
# The graph's nodes are operations, its edges say who came before whom, and why.

# %%
findings = pd.DataFrame(
    [{"id": f.id, "anomaly": f.anomaly, "forbidden": f.forbidden, "fingerprint": f.fingerprint} for f in run.findings]
)
print(findings)

# %%
neighbourhood = run.graph(finding=run.findings[0].id, radius=1) if run.findings else nx.MultiDiGraph()
for before, after, edge in sorted(neighbourhood.edges(data=True), key=lambda edge: edge[:2]):
    if edge["kind"] != "realtime":
        print(f"{before:>6} before {after:<6} {edge['kind']:8} {edge.get('partition', '')}")

# %% [markdown]
# With matplotlib, or Graphviz, or any program that reads GraphML (`fencepost export RUN --format graphml --finding 1`):
#
# ```python
# nx.draw_networkx(neighbourhood, pos=nx.spring_layout(neighbourhood, seed=1))
# ```

# %% [markdown]
# ## The same tables on Spark
#
# For histories that do not fit in memory. A session is started where none is given.

# %%
if WITH_SPARK:
    run.spark().records().groupBy("partition", "kind").count().orderBy("partition", "kind").show()
