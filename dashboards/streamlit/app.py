"""A dashboard of a results directory, for people without a server.

    streamlit run app.py -- results/

Reads the tables through views.sql, which every run of stride-pipe keeps current. Nothing is written.
"""

import pathlib
import sys
import threading
import warnings

import altair as alt
import duckdb
import pandas as pd
import streamlit as st

# DuckDB and pandas are not always of the same month.
warnings.filterwarnings("ignore", message=".*inplace keyword.*")

RESULTS = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "results")
HEADLINE = "smse"
STATUS = alt.Scale(domain=["succeeded", "alarm", "failed", "interrupted"], range=["#2a9d6f", "#e07a26", "#d1495b", "#e0a526"])
COLOURS = alt.Scale(range=["#1f77b4", "#e07a1f", "#2a9d6f", "#8a4fb0", "#d1495b", "#6b7280", "#0e9aa7", "#b5892e"])
BELOW = alt.Legend(orient="bottom", columns=3)
# What scoring warns of by default. Invalid rows count as a share of the rows here, too.
THRESHOLDS = {
    "variance_ratio": 3.0,
    "share_outside_range": 0.2,
    "nearest_distance_ratio": 5.0,
    "rows_invalid": 0.01,
    "share_unseen_levels": 0.5,
    "share_missing": 0.9,
}
# More points than this say nothing more, and take the browser long to draw.
POINTS = 2000


def stamp(results):
    """Changes whenever a run has ended: its row of `runs` is the last table that is written."""
    places = list(results.glob("runs/pipeline=*/run_date=*"))
    return len(places), max((place.stat().st_mtime_ns for place in places), default=0)


@st.cache_resource(max_entries=2, show_spinner=False)
def database(results, _stamp):
    db = duckdb.connect()
    db.execute("SET VARIABLE results = ?", [results])
    db.execute((pathlib.Path(results) / "views.sql").read_text())
    # The views ask for that variable, which cursors of the connection do not have: visitors take turns.
    return db, threading.Lock()


@st.cache_data(max_entries=200, show_spinner=False)
def cached(sql, values, results, stamp):
    db, lock = database(results, stamp)
    with lock:
        return db.execute(sql, list(values)).df()


def query(sql, *values):
    return cached(sql, values, str(RESULTS), stamp(RESULTS))


def show(chart, height=300):
    st.altair_chart(chart.properties(height=height), width="stretch")


def label(run):
    started = pd.Timestamp(run.started_at).strftime("%Y-%m-%d %H:%M")
    return f"{run.pipeline}, {started}, {run.status} ({run.run_id[-6:]})"


def choose(title, runs, index, parameter):
    """A select box of runs. The address may name one: `…/run?run=20261118T035540145657Z-9d3e69`."""
    labels = {row.run_id: label(row) for row in runs.itertuples()}
    named = st.query_params.get(parameter)
    index = list(labels).index(named) if named in labels else index
    return st.selectbox(title, list(labels), index=index, format_func=labels.get)


def runs_of(where="true"):
    """The runs; what `fit` and `tune` only tried is left out unless it is asked for."""
    trials = "true" if st.session_state.get("trials") else "NOT is_trial"
    return query(f"SELECT * FROM run_summary WHERE {where} AND {trials} ORDER BY started_at DESC")


def short(case):
    """`method=stride,m=50` as `stride, 50`."""
    return ", ".join(part.partition("=")[2] or part for part in case.split(","))


def overview():
    runs = runs_of()
    st.title("Runs")
    if runs.empty:
        st.info(f"No runs in {RESULTS} yet.")
        return
    last = (pd.Timestamp.now(tz="UTC") - pd.Timestamp(runs.started_at.max())).total_seconds()
    age = next(f"{last / size:.0f} {unit}" for unit, size in [("days", 86400), ("h", 3600), ("min", 60), ("s", 1)] if last >= size or size == 1)
    figures = {
        "Runs": len(runs),
        "Succeeded": int((runs.status == "succeeded").sum()),
        "Failed": int((runs.status == "failed").sum()),
        "Pipelines": runs.pipeline.nunique(),
        "Since the last run": age,
    }
    for column, (name, value) in zip(st.columns(len(figures)), figures.items()):
        column.metric(name, value)
    left, right = st.columns(2)
    with left:
        st.subheader("By day and status")
        days = runs.groupby(["run_date", "status"], as_index=False).size().rename(columns={"run_date": "day", "size": "runs"})
        bars = alt.Chart(days).mark_bar().encode(
            x=alt.X("yearmonthdate(day):O", title=None, scale=alt.Scale(paddingInner=0.2, paddingOuter=1)),
            y=alt.Y("runs:Q", title="runs", axis=alt.Axis(tickMinStep=1)),
            color=alt.Color("status:N", scale=STATUS, title=None, legend=BELOW),
            tooltip=["day:T", "status:N", "runs:Q"],
        )
        show(bars)
    with right:
        st.subheader(f"{HEADLINE.upper()} of the best case")
        measured = runs.dropna(subset=[HEADLINE])
        if measured.empty:
            st.caption("No run has test metrics.")
        else:
            measured = measured.assign(low=measured[HEADLINE] - measured.smse_std.fillna(0), high=measured[HEADLINE] + measured.smse_std.fillna(0))
            base = alt.Chart(measured).encode(
                x=alt.X("started_at:T", title=None),
                color=alt.Color("pipeline:N", title=None, scale=COLOURS, legend=BELOW),
            )
            line = base.mark_line(point=True).encode(y=alt.Y(f"{HEADLINE}:Q", title=f"{HEADLINE} (± deviation over folds)"), tooltip=["run_id", "best_case", HEADLINE])
            show(base.mark_rule(opacity=0.5).encode(y="low:Q", y2="high:Q") + line)
    st.dataframe(
        runs[["started_at", "pipeline", "status", "seconds", "best_case", HEADLINE, "smse_std", "host", "version", "run_id"]],
        hide_index=True,
        column_config={"started_at": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss"), "seconds": st.column_config.NumberColumn(format="%.1f"), HEADLINE: st.column_config.NumberColumn(format="%.4f"), "smse_std": st.column_config.NumberColumn(format="%.4f")},
    )


def spread(metrics):
    """Mean and deviation over the folds, case by case."""
    metrics = metrics.assign(low=metrics["mean"] - metrics["std"].fillna(0), high=metrics["mean"] + metrics["std"].fillna(0), label=metrics.case.map(short))
    base = alt.Chart(metrics).encode(y=alt.Y("label:N", title=None, sort=alt.EncodingSortField("mean")), color=alt.Color("method:N", title=None, scale=COLOURS, legend=BELOW))
    points = base.mark_point(filled=True, size=70).encode(x=alt.X("mean:Q", title=f"{metrics.metric.iloc[0]}: mean and deviation over folds"), tooltip=["case", "mean", "std", "lowest", "highest"])
    return base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q") + points


def one_run():
    runs = runs_of()
    st.title("A run")
    if runs.empty:
        st.info(f"No runs in {RESULTS} yet.")
        return
    # The latest run that was measured says most.
    first = next((at for at, run in enumerate(runs.itertuples()) if run.smse == run.smse), 0)
    run_id = choose("Run", runs, first, "run")
    facts = query("SELECT * FROM runs WHERE run_id = ?", run_id).iloc[0]
    seconds = (facts.finished_at - facts.started_at).total_seconds()
    for column, (name, value) in zip(st.columns(5), {"Status": facts.status, "Duration": f"{seconds:.1f} s", "Seed": facts.seed, "Threads": facts.threads, "Version": facts.version}.items()):
        column.metric(name, value)
    st.code(facts.command, language=None)
    params = query("SELECT name, value, origin FROM params WHERE run_id = ? ORDER BY name", run_id)
    if not params.empty:
        with st.expander(f"Parameters ({len(params)})"):
            st.dataframe(params, hide_index=True)
    report = RESULTS / "run" / run_id / "report.html"
    if report.exists():
        st.caption(f"Report: {report}")

    metrics = query("SELECT * FROM metrics_summary WHERE run_id = ? AND split <> 'train'", run_id)
    names = [name for name in metrics.metric.unique() if metrics[metrics.metric == name]["mean"].notna().any()]
    names.sort(key=lambda name: (name != HEADLINE, name))
    if names:
        metric = st.selectbox("Metric", names)
        left, right = st.columns(2)
        chosen = metrics[metrics.metric == metric]
        with left:
            st.subheader("By case")
            show(spread(chosen), height=34 * len(chosen) + 110)
        with right:
            variables = query("SELECT * FROM metrics_by_variable WHERE run_id = ? AND metric = ? AND number IS NOT NULL AND split <> 'train'", run_id, metric)
            if variables.empty:
                st.subheader("Over the folds")
                folds = query("SELECT \"case\", fold, value FROM metrics WHERE run_id = ? AND metric = ? AND stat = 'value' AND feature IS NULL AND split <> 'train'", run_id, metric)
                folds["label"] = folds["case"].map(short)
                show(alt.Chart(folds).mark_tick(thickness=2).encode(x=alt.X("value:Q", title=metric, scale=alt.Scale(zero=False)), y=alt.Y("label:N", title=None), tooltip=["case", "fold", "value"]), height=34 * folds.label.nunique() + 110)
            else:
                name = st.selectbox("Against", sorted(variables.variable.unique()))
                against = variables[variables.variable == name]
                base = alt.Chart(against).encode(x=alt.X("number:Q", title=name), color=alt.Color("others:N", title=None, scale=COLOURS, legend=BELOW))
                bars = base.mark_errorbar().encode(y=alt.Y("mean:Q", title=metric), yError="std:Q")
                show(bars + base.mark_line(point=True).encode(y="mean:Q", tooltip=["case", "mean", "std"]), height=280)
        predicted(run_id)
    costs(run_id)


def predicted(run_id):
    left, right = st.columns(2)
    with left:
        st.subheader("Calibration")
        lines = query("SELECT \"case\", nominal, observed FROM calibration WHERE run_id = ? ORDER BY ALL", run_id)
        if lines.empty:
            st.caption("No predictions with true values.")
        else:
            lines["label"] = lines["case"].map(short)
            percent = alt.Axis(format="%")
            ideal = alt.Chart(pd.DataFrame({"x": [0, 1]})).mark_line(strokeDash=[4, 4], color="gray").encode(x="x:Q", y="x:Q")
            drawn = alt.Chart(lines).mark_line(point=True).encode(
                x=alt.X("nominal:Q", title="share that should be inside", axis=percent),
                y=alt.Y("observed:Q", title="share inside central intervals", axis=percent),
                color=alt.Color("label:N", title=None, scale=COLOURS, legend=BELOW),
                tooltip=["case", "nominal", "observed"],
            )
            show(ideal + drawn, height=380)
    with right:
        st.subheader("Predicted against true")
        of_run = "SELECT key, \"case\", y_true, y_mean, y_std FROM predictions WHERE run_id = ? AND y_true IS NOT NULL"
        rows = query(f"FROM ({of_run}) USING SAMPLE reservoir({POINTS} ROWS) REPEATABLE (1)", run_id)
        if rows.empty:
            st.caption("No predictions with true values.")
        else:
            rows["label"] = rows["case"].map(short)
            ends = pd.DataFrame({"x": [rows.y_true.min(), rows.y_true.max()]})
            points = alt.Chart(rows).mark_circle(opacity=0.4, size=18).encode(
                x=alt.X("y_true:Q", title="true"), y=alt.Y("y_mean:Q", title="predicted"), color=alt.Color("label:N", scale=COLOURS, legend=None), tooltip=["key", "case", "y_true", "y_mean", "y_std"]
            )
            show(points + alt.Chart(ends).mark_line(strokeDash=[4, 4], color="gray").encode(x="x:Q", y="x:Q"), height=380)


def costs(run_id):
    stages = query("SELECT stage, sum(wall_s) AS seconds, max(peak_rss_bytes) / 1e6 AS megabytes FROM timings_by_stage WHERE run_id = ? GROUP BY stage ORDER BY stage", run_id)
    if stages.empty:
        return
    left, right = st.columns(2)
    for place, title, column in [(left, "Seconds by stage", "seconds"), (right, "Peak memory by stage (MB)", "megabytes")]:
        with place:
            st.subheader(title)
            show(alt.Chart(stages).mark_bar().encode(y=alt.Y("stage:N", title=None, sort="-x"), x=alt.X(f"{column}:Q", title=None), tooltip=["stage", column]), height=34 * len(stages) + 40)


def compare():
    runs = runs_of("smse IS NOT NULL")
    st.title("Compare two runs")
    if len(runs) < 2:
        st.info("Two runs with test metrics are needed.")
        return
    left, right = st.columns(2)
    with left:
        old = choose("First", runs, 1, "first")
    with right:
        new = choose("Second", runs, 0, "second")
    params = query(
        "SELECT coalesce(a.name, b.name) AS name, a.value AS first, b.value AS second FROM (SELECT * FROM params WHERE run_id = ?) a "
        "FULL JOIN (SELECT * FROM params WHERE run_id = ?) b USING (name) WHERE a.value IS DISTINCT FROM b.value ORDER BY 1",
        old, new,
    )
    facts = query("SELECT run_id, pipeline, version, seed::VARCHAR AS seed, host, threads::VARCHAR AS threads FROM runs WHERE run_id IN (?, ?)", old, new).set_index("run_id")
    differ = [(name, facts[name].get(old), facts[name].get(new)) for name in facts if facts[name].get(old) != facts[name].get(new)]
    differ = pd.concat([pd.DataFrame(differ, columns=["name", "first", "second"]), params]).drop_duplicates("name")
    st.subheader("What differs")
    if differ.empty:
        st.caption("Parameters, seed, version, machine and pipeline are the same.")
    else:
        st.dataframe(differ, hide_index=True)
    metrics = query("SELECT run_id, stage, \"case\", method, metric, mean, std FROM metrics_summary WHERE run_id IN (?, ?) AND split <> 'train' AND mean IS NOT NULL", old, new)
    both = metrics[metrics.run_id == old].merge(metrics[metrics.run_id == new], on=["stage", "case", "metric"], suffixes=("_first", "_second"))
    if both.empty:
        st.info("The two runs have no case in common.")
        return
    names = sorted(both.metric.unique(), key=lambda name: (name != HEADLINE, name))
    metric = st.selectbox("Metric", names)
    chosen = both[both.metric == metric].assign(label=lambda rows: rows["case"].map(short))
    long = pd.concat([chosen.assign(run=run, mean=chosen[f"mean_{run}"], std=chosen[f"std_{run}"].fillna(0)) for run in ["first", "second"]])
    long = long.assign(low=long["mean"] - long["std"], high=long["mean"] + long["std"])
    base = alt.Chart(long).encode(y=alt.Y("label:N", title=None), yOffset="run:N", color=alt.Color("run:N", title=None, scale=COLOURS, legend=BELOW))
    points = base.mark_point(filled=True, size=70).encode(x=alt.X("mean:Q", title=f"{metric}: mean and deviation over folds", scale=alt.Scale(zero=False)), tooltip=["case", "run", "mean", "std"])
    show(base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q") + points, height=60 * len(chosen) + 110)
    table = both.assign(difference=both.mean_second - both.mean_first)[["stage", "case", "metric", "mean_first", "std_first", "mean_second", "std_second", "difference"]]
    st.dataframe(table.rename(columns={"mean_first": "first", "mean_second": "second", "std_first": "± first", "std_second": "± second"}), hide_index=True)


def unusual(drift):
    """All metrics of all days at once: a day that is usual in one of them may be far off in another."""
    limits = drift.metric.map(THRESHOLDS)
    above = drift[drift.value > limits]
    if above.empty:
        st.success(f"None of {drift.scored_day.nunique()} days is unusual in any metric.")
        return
    days = above.scored_day.nunique()
    lines = []
    for metric, rows in above.groupby("metric"):
        worst = rows.loc[rows.value.idxmax()]
        feature = f" of `{worst.feature}`" if isinstance(worst.feature, str) else ""
        day = pd.Timestamp(worst.scored_day).strftime("%Y-%m-%d")
        lines.append(f"- `{metric}` above {THRESHOLDS[metric]:g} on {rows.scored_day.nunique()} day(s), at most {worst.value:.3g}{feature} on {day}")
    text = f"{days} of {drift.scored_day.nunique()} days are unlike those of training:\n\n" + "\n".join(lines)
    st.warning(text)


def scoring():
    st.title("Scoring and drift")
    drift = query("SELECT * REPLACE (CASE WHEN metric = 'rows_invalid' THEN value / greatest(rows, 1) ELSE value END AS value) FROM drift WHERE value IS NOT NULL")
    if drift.empty:
        st.info("No scoring runs yet: drift is written by pipelines that score with a published model.")
        return
    pipelines = st.multiselect("Pipelines", sorted(drift.pipeline.unique()), default=sorted(drift.pipeline.unique()))
    drift = drift[drift.pipeline.isin(pipelines)].sort_values("started_at")
    # A day that was scored twice counts as it was scored last.
    drift = drift.drop_duplicates(["pipeline", "case", "metric", "feature", "scored_day"], keep="last")
    unusual(drift)
    left, right = st.columns([3, 1])
    with left:
        metric = st.selectbox("Metric", [name for name in THRESHOLDS if (drift.metric == name).any()])
    with right:
        threshold = st.number_input("Threshold", value=THRESHOLDS[metric], min_value=0.0)
    chosen = drift[drift.metric == metric]
    if chosen.empty:
        st.caption("Nothing to show.")
        return
    series = chosen.pipeline + chosen["case"].map(lambda case: "" if case == "default" or case.startswith("date=") else " " + short(case))
    chosen = chosen.assign(series=series + chosen.feature.map(lambda name: f", {name}" if isinstance(name, str) else ""))
    lines = alt.Chart(chosen).mark_line(point=True).encode(
        x=alt.X("scored_day:T", title="day of the data"),
        y=alt.Y("value:Q", title=metric),
        color=alt.Color("series:N", title=None, scale=COLOURS, legend=BELOW),
        tooltip=["scored_day:T", "series", "value", "rows", "run_id"],
    )
    rule = alt.Chart(pd.DataFrame({"value": [threshold]})).mark_rule(strokeDash=[6, 4], color="#d1495b", strokeWidth=2).encode(y="value:Q")
    show(lines + rule, height=380)
    days = chosen[chosen.value > threshold].scored_day.nunique()
    st.caption(f"{metric}: {days} of {chosen.scored_day.nunique()} days are above {threshold:g}.")
    wide = query("SELECT scored_day, pipeline, \"case\", rows, rows_invalid, variance_ratio, most_outside, most_outside_feature, most_unseen_levels, most_missing, run_id FROM drift_wide ORDER BY scored_day DESC")
    st.dataframe(wide[wide.pipeline.isin(pipelines)], hide_index=True, column_config={"scored_day": st.column_config.DateColumn()})


st.set_page_config(page_title=f"stride-pipe: {RESULTS.name}", layout="wide")
if not (RESULTS / "views.sql").exists():
    st.error(f"{RESULTS} is not a results directory: it has no views.sql. Start with: streamlit run app.py -- path/to/results")
    st.stop()
PAGES = [
    st.Page(overview, title="Overview", default=True),
    st.Page(one_run, title="A run", url_path="run"),
    st.Page(compare, title="Compare", url_path="compare"),
    st.Page(scoring, title="Scoring", url_path="scoring"),
]
page = st.navigation(PAGES)
st.sidebar.checkbox("With what `fit` and `tune` tried", key="trials")
page.run()
