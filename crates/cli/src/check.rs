//! `glidepath check`: does a protocol hold under every fault of the scenarios?

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;
use glidepath_check::{Checked, Clients, Explored, FailedSeed, LIBRARY, Scenario, Subject, Trial, explore, shrink};
use glidepath_lab::library::read_text;
use glidepath_lab::runner::Progress;
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::on_interrupt;
use crate::output::{print, print_json, table};
use crate::progress::Display;
use crate::threads::Threads;
use crate::whole::from_one;

/// Try to break a protocol: run simulated writers under faults, and compare their answers with the stored catalog
///
/// Each seed is one run: it determines the commits of each writer and the faults. With odd seeds each writer commits
/// changes by itself; with even seeds threads of several processes send requests of every kind, alone or in groups.
/// Transactions are begun, ended, settled, scanned, moved to other tables, and in one run of four restored. For a seed
/// that fails, the command that replays it is printed.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The protocol of a catalog, in one of its layouts; transactions, for their service; all of these; or, if this
    /// program has the catalog server: serve or lance, for it over every protocol, with clients of Iceberg or of Lance
    #[arg(value_name = "PROTOCOL", value_parser = subjects())]
    protocol: String,
    /// The number of runs of each protocol in each scenario
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = from_one::<u64>, conflicts_with = "seed")]
    seeds: u64,
    /// The seed of the first run; the other seeds follow it (catalogs are made with seed 0, so it is none of a run)
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = from_one::<u64>, conflicts_with = "seed")]
    first_seed: u64,
    /// Names or files of scenarios [default: all that ship with the program]
    #[arg(long, value_name = "NAME or FILE", value_delimiter = ',')]
    scenario: Vec<String>,
    /// Run this seed only
    #[arg(long, value_name = "SEED", value_parser = from_one::<u64>)]
    seed: Option<u64>,
    /// Print what each process did, and each fault
    #[arg(long, requires = "seed", conflicts_with = "json")]
    trace: bool,
    /// The number of writers, instead of the scenario's
    #[arg(long, value_name = "COUNT", value_parser = from_one::<u32>)]
    writers: Option<u32>,
    /// The number of commits of each writer, instead of the scenario's
    #[arg(long, value_name = "COUNT", value_parser = from_one::<u32>)]
    commits: Option<u32>,
    #[command(flatten)]
    threads: Threads,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One protocol in one scenario.
struct Case {
    /// Its name on the command line.
    scenario: String,
    trial: Trial,
}

/// The result of a case.
#[derive(Serialize)]
struct Line {
    protocol: String,
    scenario: String,
    seeds: u64,
    attempts: u64,
    commits: u64,
    open: u64,
    faults: u64,
    simulated_h: f64,
    elapsed_s: f64,
    commits_per_min: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Violated>,
}

#[derive(Serialize)]
struct Violated {
    seed: u64,
    violation: String,
    smallest: Smallest,
}

/// The smallest run found that fails, perhaps with another seed and another violation.
#[derive(Serialize)]
struct Smallest {
    seed: u64,
    writers: u32,
    commits: u32,
    violation: String,
    replay: String,
}

/// Runs the checks.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cases = cases(arguments)?;
    let seeds = arguments.seed.map_or((arguments.first_seed, arguments.seeds), |seed| (seed, 1));
    if seeds.0.checked_add(seeds.1 - 1).is_none() {
        let words = format!("--first-seed {} leaves no {} seeds: the greatest is {}", seeds.0, seeds.1, u64::MAX);
        return Err(Failure::Mistake(words));
    }
    if arguments.trace {
        return trace(&cases, seeds.0);
    }
    let stop = on_interrupt()?;
    let lines = explored(arguments, &cases, seeds, stop);
    let (failures, stopped) =
        (lines.iter().filter(|line| line.failure.is_some()).count(), stop.load(Ordering::Relaxed));
    let told = if arguments.json { print_json(&lines) } else { print(&text(&lines)) };
    let failure = match failures {
        0 if stopped => Failure::Interrupted("Stopped: all finished runs held.".to_owned()),
        0 => return told,
        count => Failure::Failed(format!("{count} of {} cases (a protocol in a scenario) did not hold", lines.len())),
    };
    Err(failure.after(told))
}

fn subjects() -> PossibleValuesParser {
    let servers: Vec<_> = Clients::ALL.into_iter().flat_map(Subject::servers).collect();
    let every = Clients::ALL.into_iter().filter(|_| !servers.is_empty()).map(|clients| clients.name().to_owned());
    let one = Subject::all().into_iter().chain(servers.clone()).map(Subject::name);
    PossibleValuesParser::new(one.chain(every).chain(["all".to_owned()]))
}

fn cases(arguments: &Arguments) -> Result<Vec<Case>, Failure> {
    let subjects = match Subject::named(&arguments.protocol) {
        Some(one) => vec![one],
        None => match Clients::ALL.into_iter().find(|clients| clients.name() == arguments.protocol) {
            Some(clients) => Subject::servers(clients),
            None => Subject::all(),
        },
    };
    let mut names = arguments.scenario.clone();
    if names.is_empty() {
        names.extend(LIBRARY.iter().map(|(name, _)| (*name).to_owned()));
    }
    let scenarios =
        names.iter().map(|name| Ok((name, scenario(name, arguments)?))).collect::<Result<Vec<_>, Failure>>()?;
    let cases = subjects.into_iter().flat_map(|subject| {
        let case = move |(name, scenario): &(&String, Scenario)| Case {
            scenario: (*name).clone(),
            trial: Trial::new(subject, scenario),
        };
        scenarios.iter().filter(move |(_, scenario)| subject.runs_in(scenario)).map(case)
    });
    let cases: Vec<Case> = cases.collect();
    if cases.is_empty() {
        return Err(Failure::Mistake(runs_nowhere(arguments)));
    }
    Ok(cases)
}

/// Why what was given runs in none of the scenarios that were given.
fn runs_nowhere(arguments: &Arguments) -> String {
    let others = "and these scenarios are of catalogs: on a disk, in cells, or beside a stranger's objects; give another scenario";
    match Subject::named(&arguments.protocol) {
        Some(Subject::Transactions) => format!("transactions are in a simulated key-value store, {others}"),
        _ if Clients::ALL.iter().any(|clients| arguments.protocol.starts_with(clients.name())) => {
            format!("the catalog server keeps files of tables in a simulated object store, {others}")
        }
        _ => format!(
            "{} appends to objects, and in these scenarios the catalog is in the cells of a key-value store, which cannot be \
             appended to; give another protocol, or another scenario",
            arguments.protocol
        ),
    }
}

/// A scenario that ships with the program, or the file at this path if it looks like one.
fn scenario(name: &str, arguments: &Arguments) -> Result<Scenario, Failure> {
    let known = || LIBRARY.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let text = if name.contains(std::path::is_separator) || Path::new(name).extension().is_some() {
        let unreadable = |error| {
            let words = format!(
                "{name}: cannot read this scenario: {error}; those that ship with the program are in experiments/faults: {}",
                known()
            );
            Failure::Mistake(words)
        };
        read_text(Path::new(name)).map_err(unreadable)?
    } else {
        let unknown = || {
            let known = known();
            Failure::Mistake(format!(
                "there is no scenario \"{name}\"; known: {known}. Name a file by its path, such as ./{name}.toml"
            ))
        };
        LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned()).ok_or_else(unknown)?
    };
    let mistaken = |error| Failure::Mistake(format!("{name}: {error}"));
    let mut scenario = Scenario::parse(&text).map_err(mistaken)?;
    scenario.writers.count = arguments.writers.unwrap_or(scenario.writers.count);
    scenario.writers.commits = arguments.commits.unwrap_or(scenario.writers.commits);
    scenario.checked().map_err(mistaken)
}

fn trace(cases: &[Case], seed: u64) -> Result<(), Failure> {
    let [case] = cases else {
        let first = cases.first().map(|case| case.trial.subject());
        let missing = match cases.iter().all(|case| Some(case.trial.subject()) == first) {
            true => {
                let scenarios: Vec<&str> = cases.iter().map(|case| &*case.scenario).collect();
                format!("give one scenario with --scenario: {}", scenarios.join(", "))
            }
            false => "give one protocol, and one scenario with --scenario".to_owned(),
        };
        return Err(Failure::Mistake(format!("--trace shows one run: {missing}")));
    };
    let told = print(case.trial.trace(seed).trim_end());
    match case.trial.check(seed).violation {
        Some(violation) => Err(Failure::Failed(violation).after(told)),
        None => told.and_then(|()| print("This run holds: no violation.")),
    }
}

fn explored(arguments: &Arguments, cases: &[Case], seeds: (u64, u64), stop: &AtomicBool) -> Vec<Line> {
    let threads = arguments.threads.count().get();
    let total = seeds.1.saturating_mul(cases.len() as u64);
    let mut progress = Progress { total: total as usize, arrivals_total: total as f64, ..Progress::default() };
    let display = Display::new();
    let mut show = |checked: &Checked| {
        progress.done += 1;
        progress.arrivals_done += 1.0;
        progress.simulated_s += checked.simulated.as_secs_f64();
        display.runs(progress);
    };
    let mut lines = Vec::new();
    for case in cases {
        let began = Instant::now();
        let explored = explore(&case.trial, seeds, threads, stop, &mut show);
        let elapsed_s = began.elapsed().as_secs_f64();
        let failure = explored.found.as_ref().map(|found| violated(arguments, case, found, stop));
        if explored.seeds > 0 {
            lines.push(line(case, &explored, elapsed_s, failure));
        }
    }
    lines
}

fn line(case: &Case, explored: &Explored, elapsed_s: f64, failure: Option<Violated>) -> Line {
    Line {
        protocol: case.trial.subject().name(),
        scenario: case.scenario.clone(),
        seeds: explored.seeds,
        attempts: explored.attempts,
        commits: explored.committed,
        open: explored.open,
        faults: explored.faults,
        simulated_h: explored.simulated.as_secs_f64() / 3600.0,
        elapsed_s,
        commits_per_min: explored.committed as f64 / elapsed_s.max(1e-9) * 60.0,
        failure,
    }
}

/// The smallest failing run, and the command that replays it.
fn violated(arguments: &Arguments, case: &Case, found: &FailedSeed, stop: &AtomicBool) -> Violated {
    let smaller = shrink(&case.trial, found, stop);
    let (trial, smallest) = smaller.as_ref().map_or((&case.trial, found), |(trial, found)| (trial, found));
    let (protocol, scenario) = (trial.subject().name(), quoted(&case.scenario));
    let mut replay = format!("glidepath check {protocol} --scenario {scenario} --seed {}", smallest.seed);
    let writers = trial.scenario().writers;
    if smaller.is_some() || arguments.writers.is_some() {
        replay += &format!(" --writers {}", writers.count);
    }
    if smaller.is_some() || arguments.commits.is_some() {
        replay += &format!(" --commits {}", writers.commits);
    }
    let FailedSeed { seed, violation } = found.clone();
    let smallest = Smallest {
        seed: smallest.seed,
        writers: writers.count,
        commits: writers.commits,
        violation: smallest.violation.clone(),
        replay: replay + " --trace",
    };
    Violated { seed, violation, smallest }
}

/// Quoted as one word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn text(lines: &[Line]) -> String {
    let header = [
        "protocol",
        "scenario",
        "seeds",
        "attempts",
        "commits",
        "open",
        "faults",
        "simulated h",
        "commits checked/min",
        "held",
    ];
    let row = |line: &Line| {
        let Line { seeds, attempts, commits, open, faults, .. } = line;
        let mut row = vec![line.protocol.clone(), line.scenario.clone()];
        row.extend([seeds, attempts, commits, open, faults].map(u64::to_string));
        row.extend([format!("{:.1}", line.simulated_h), format!("{:.0}", line.commits_per_min)]);
        row.push(if line.failure.is_some() { "NO" } else { "yes" }.to_owned());
        row
    };
    let mut text = table(&header.map(str::to_owned), 2, lines.iter().map(row).collect());
    if !lines.is_empty() && lines.iter().all(|line| line.failure.is_none()) {
        let runs: u64 = lines.iter().map(|line| line.seeds).sum();
        let all = if runs == 1 { "The one run held".to_owned() } else { format!("All {runs} runs held") };
        text += &format!("\n\n{all}. Open: attempts whose client never learned what became of them.");
    }
    for line in lines {
        if let Some(Violated { seed, smallest: Smallest { violation, replay, .. }, .. }) = &line.failure {
            let (protocol, scenario) = (&line.protocol, &line.scenario);
            text += &format!(
                "\n\n{protocol} does not hold in {scenario}, seed {seed}. The smallest run found that fails:\n"
            );
            text += &format!("{violation}\nreplay: {replay}");
        }
    }
    text
}
