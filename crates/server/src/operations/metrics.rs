//! Counts, and the text in which Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use glidepath_service::Counts;

/// The upper bounds of latencies, in seconds.
const BOUNDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// What is done with a file of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileOperation {
    Read,
    Write,
    Delete,
    List,
}

impl FileOperation {
    const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Delete, Self::List];

    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }
}

/// Latencies.
#[derive(Clone, Debug, Default)]
struct Latencies {
    /// How many are at most this bound, and above the one before.
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Latencies {
    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(at) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[at] += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let mut below = 0;
        for (bound, amount) in BOUNDS.iter().zip(self.buckets) {
            below += amount;
            line(out, &format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), below);
        }
        line(out, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), self.count);
        line(out, &format!("{name}_sum"), labels, self.seconds);
        line(out, &format!("{name}_count"), labels, self.count);
    }
}

/// The route and method of a request. The template of the route, so that there are few.
type Route = (String, &'static str);

#[derive(Default)]
struct Noted {
    requests: BTreeMap<(Route, u16), u64>,
    latencies: BTreeMap<Route, Latencies>,
    errors: BTreeMap<&'static str, u64>,
    files: BTreeMap<FileOperation, (Latencies, u64)>,
}

/// What happened since the start.
#[derive(Default)]
pub(crate) struct Metrics {
    noted: Mutex<Noted>,
    /// Requests that were refused since there were too many.
    pub(crate) turned_away: AtomicU64,
    /// Requests whose time ended before their work.
    pub(crate) timed_out: AtomicU64,
    /// Connections at this moment.
    pub(crate) connections: AtomicU64,
    /// Requests to the token service for short-lived credentials.
    pub(crate) credentials: AtomicU64,
    /// Those of them that failed.
    pub(crate) credential_failures: AtomicU64,
}

impl Metrics {
    /// Notes a request that was answered; `error` is the name of its error in Iceberg's protocol.
    pub(crate) fn request(
        &self,
        route: &str,
        method: &'static str,
        status: u16,
        took: Duration,
        error: Option<&'static str>,
    ) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let route = (route.to_owned(), method);
        *noted.requests.entry((route.clone(), status)).or_default() += 1;
        noted.latencies.entry(route).or_default().add(took);
        if let Some(error) = error {
            *noted.errors.entry(error).or_default() += 1;
        }
    }

    pub(crate) fn file(&self, operation: FileOperation, took: Duration, failed: bool) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let (latencies, failures) = noted.files.entry(operation).or_default();
        latencies.add(took);
        *failures += u64::from(failed);
    }

    /// All of it as Prometheus reads it. `running` are the requests at this moment.
    pub(crate) fn text(&self, counts: &Counts, running: usize, draining: bool) -> String {
        let mut out = String::new();
        self.of_requests(&mut out);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        head(&mut out, "glidepath_requests_running", "gauge", "Requests at this moment.");
        line(&mut out, "glidepath_requests_running", "", running);
        single(
            &mut out,
            "glidepath_requests_turned_away_total",
            "Requests refused because of --most-requests, --all-bodies or --all-answers.",
            read(&self.turned_away),
        );
        single(
            &mut out,
            "glidepath_requests_timed_out_total",
            "Requests answered because of --request-timeout.",
            read(&self.timed_out),
        );
        head(&mut out, "glidepath_connections", "gauge", "Connections at this moment.");
        line(&mut out, "glidepath_connections", "", read(&self.connections));
        head(&mut out, "glidepath_draining", "gauge", "1 if the server is ending.");
        line(&mut out, "glidepath_draining", "", u8::from(draining));
        for (name, help, counter) in [
            ("credentials", "Requests to the token service for short-lived credentials.", &self.credentials),
            ("credential_failures", "Requests to the token service that failed.", &self.credential_failures),
        ] {
            single(&mut out, &format!("glidepath_{name}_total"), help, read(counter));
        }
        of_service(&mut out, counts);
        out
    }

    fn of_requests(&self, out: &mut String) {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "glidepath_requests_total";
        head(out, name, "counter", "Requests, by route, method and status.");
        for (((route, method), status), amount) in &noted.requests {
            line(out, name, &format!("route=\"{route}\",method=\"{method}\",status=\"{status}\""), amount);
        }
        let name = "glidepath_request_seconds";
        head(out, name, "histogram", "The time from the headers of a request to its answer.");
        for ((route, method), latencies) in &noted.latencies {
            latencies.write(out, name, &format!("route=\"{route}\",method=\"{method}\""));
        }
        let name = "glidepath_errors_total";
        head(out, name, "counter", "Answers that were errors, by their type in Iceberg's protocol.");
        for (error, amount) in &noted.errors {
            line(out, name, &format!("type=\"{error}\""), amount);
        }
        let name = "glidepath_file_seconds";
        head(out, name, "histogram", "The time of requests for metadata files of tables, with repeats.");
        for (operation, (latencies, _)) in &noted.files {
            latencies.write(out, name, &format!("operation=\"{}\"", operation.name()));
        }
        let name = "glidepath_file_failures_total";
        head(out, name, "counter", "Requests for metadata files that failed.");
        for operation in FileOperation::ALL {
            let failures = noted.files.get(&operation).map_or(0, |(_, failures)| *failures);
            line(out, name, &format!("operation=\"{}\"", operation.name()), failures);
        }
    }
}

/// The counts of the service.
fn of_service(out: &mut String, counts: &Counts) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for (name, help, counter) in [
        ("commits", "Commits of tables that took effect.", &counts.committed),
        ("rebases", "Commits that were rebased onto a newer snapshot first.", &counts.rebased),
        ("conflicts", "Commits refused because a requirement did not hold.", &counts.conflicts),
        ("overtaken", "Attempts repeated because another server moved the table first.", &counts.overtaken),
        (
            "turns",
            "Turns of other servers that this one waited for, at tables that they commit to as well.",
            &counts.turns,
        ),
        ("passed_over", "Servers that did not come when it was their turn in such a line.", &counts.passed_over),
        ("in_line_ms", "How long this server waited in such lines, in milliseconds.", &counts.in_line_ms),
        ("unknown_outcomes", "Commits whose outcome could not be told.", &counts.unknown),
        ("replays", "Requests answered by what an earlier delivery of them did.", &counts.replayed),
        (
            "priorities",
            "Times that others were held back for the next try of an overwrite that conflicted.",
            &counts.priorities,
        ),
        ("priorities_used", "Those of them in which it landed.", &counts.priorities_used),
        ("held", "Commits that waited for such a try.", &counts.held),
        ("held_for_several", "Those of them that waited for one over several tables.", &counts.held_for_several),
        ("held_ms", "How long they waited, in milliseconds.", &counts.held_ms),
        ("versions", "Versions of tables written; several commits may share one.", &counts.versions),
    ] {
        single(out, &format!("glidepath_{name}_total"), help, read(counter));
    }
    head(out, "glidepath_commits_waiting", "gauge", "Commits that wait for a table at this moment.");
    line(out, "glidepath_commits_waiting", "", read(&counts.waiting));
}

fn single(out: &mut String, name: &str, help: &str, value: u64) {
    head(out, name, "counter", help);
    line(out, name, "", value);
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = match labels {
        "" => writeln!(out, "{name} {value}"),
        labels => writeln!(out, "{name}{{{labels}}} {value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let metrics = Metrics::default();
        for ms in [1, 3, 3, 60_000] {
            metrics.request("/v1/x/{y}", "GET", 200, Duration::from_millis(ms), None);
        }
        metrics.request("/v1/x/{y}", "GET", 409, Duration::from_millis(1), Some("CommitFailedException"));
        let text = metrics.text(&Counts::default(), 2, false);
        let at = "route=\"/v1/x/{y}\",method=\"GET\"";
        for wanted in [
            format!("glidepath_requests_total{{{at},status=\"200\"}} 4"),
            format!("glidepath_request_seconds_bucket{{{at},le=\"0.001\"}} 2"),
            format!("glidepath_request_seconds_bucket{{{at},le=\"0.005\"}} 4"),
            format!("glidepath_request_seconds_bucket{{{at},le=\"30\"}} 4"),
            format!("glidepath_request_seconds_bucket{{{at},le=\"+Inf\"}} 5"),
            format!("glidepath_request_seconds_count{{{at}}} 5"),
            "glidepath_errors_total{type=\"CommitFailedException\"} 1".to_owned(),
            "glidepath_requests_running 2".to_owned(),
            "glidepath_commits_total 0".to_owned(),
        ] {
            assert!(text.lines().any(|line| line == wanted), "{wanted} is not in\n{text}");
        }
    }
}
