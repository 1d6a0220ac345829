//! `glidepath measure`: what do conditional writes cost on this store?

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use glidepath_measure::{
    Evidence, Fitted, LiveSite, Measurement, Plan, PlanResult, Provenance, Report, SimulatedSite, Site, alternatives,
    has_profile, profile, run, write_samples,
};
use glidepath_model::{ByteSize, Span};
use glidepath_page::ReportPage;
use glidepath_sim::Profile;
use glidepath_stores::{Options, is_there, open};

use crate::cost::agree;
use crate::failure::{Failure, not_opened};
use crate::folder::{self, unwritable, write};
use crate::interrupt::on_interrupt;
use crate::leftovers::Leftovers;
use crate::origin::{bare, machine, program, today};
use crate::output::{complain, print};
use crate::predicted::read_profile;
use crate::progress::Display;
use crate::whole::{from_one, without_leading_zeros};

mod compare;
mod earlier;
mod overview;

/// The file of the profile.
const PROFILE: &str = "profile.toml";

/// The file of alternatives, beside that of the profile.
const ALTERNATIVES: &str = "profile-alternatives.toml";

/// The file of all samples, which every measurement has.
const SAMPLES: &str = "samples.parquet";

/// Measure conditional writes on a store, and write a profile for simulations
///
/// STORE is a URL (memory:, file:///directory, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix) or
/// sim:PROFILE, a simulated store. Results go into a folder: report.html, report.md, profile.toml,
/// profile-alternatives.toml (other profiles that the measurement allows), samples.parquet. The command removes
/// everything that it wrote to the store, and changes nothing else.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Subcommand, Debug)]
enum Other {
    /// Compare two measurements: of two stores, two machines, or two ways to authenticate
    Compare(compare::Arguments),
}

#[derive(Args, Debug)]
struct Measure {
    /// The store, by its URL
    #[arg(value_name = "STORE", required = true)]
    store: Option<String>,
    /// A coarse answer in under a minute
    #[arg(long)]
    quick: bool,
    /// The numbers of contending writers: 1,2,4,8,16 or 1-16
    #[arg(long, value_name = "COUNTS")]
    writers: Option<String>,
    /// The operations to measure: cas, create, append, get, put
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    operations: Vec<String>,
    /// The number of trials of each operation and number of writers
    #[arg(long, value_name = "COUNT", value_parser = from_one::<u32>)]
    trials: Option<u32>,
    /// The length of a trial, such as 5s
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// The size of a guarded object, such as 100B or 4KiB
    #[arg(long, value_name = "SIZE")]
    body: Option<ByteSize>,
    /// The folder for results; a complete measurement replaces an earlier one of the same store there, if it has all
    /// operations and numbers of writers of that one
    #[arg(long, value_name = "FOLDER", default_value = "results/measure")]
    out: PathBuf,
    /// Do not ask before requests that cost money
    #[arg(long)]
    yes: bool,
}

/// Measures.
pub(crate) fn run_command(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.other {
        Some(Other::Compare(compare)) => compare::run(compare),
        None => arguments.measure.run(),
    }
}

impl Measure {
    fn run(&self) -> Result<(), Failure> {
        let url = self.store.as_deref().unwrap_or_default();
        let plan = self.plan()?;
        let may_write = folder::check(&self.out, &folder::label_of_store("measure", url))
            .and_then(|()| earlier::check(&self.out, &plan));
        // What is no store is told so first.
        let simulated = match url.strip_prefix("sim:") {
            Some(name) => {
                let profile = read_profile(name)?;
                may_write?;
                Some(profile)
            }
            None => {
                is_there(url).map_err(not_opened)?;
                may_write.map_err(|refused| folder::after_store(refused, url))?;
                None
            }
        };
        let made = folder::create(&self.out).map_err(|error| unwritable(&self.out, &error))?;
        let result = self.measure_url(url, simulated, &plan);
        if result.is_err() {
            folder::remove_empty(&made);
        }
        result
    }

    fn measure_url(&self, url: &str, simulated: Option<Profile>, plan: &Plan) -> Result<(), Failure> {
        match simulated {
            Some(store) => self.measure(&mut SimulatedSite::new(store, 1), plan, url, on_interrupt()?),
            None => {
                let leftovers = Leftovers::before_opening(url)?;
                let result = self.measure_live(url, plan);
                leftovers.remove();
                result
            }
        }
    }

    /// The store is closed when this returns.
    fn measure_live(&self, url: &str, plan: &Plan) -> Result<(), Failure> {
        let store = open(url, &Options::default()).map_err(not_opened)?;
        self.agree(url, plan)?;
        // Before the first object is written, because an immediate end would leave the object in the store.
        let stop = on_interrupt()?;
        let mut site = LiveSite::open(store).map_err(|error| Failure::Failed(format!("{}: {error}", bare(url))))?;
        self.measure(&mut site, plan, &bare(url), stop)
    }

    fn measure(&self, site: &mut impl Site, plan: &Plan, store: &str, stop: &AtomicBool) -> Result<(), Failure> {
        let display = Display::new();
        let stopped = run(site, plan, stop, |done, all| display.steps(done, all, "trials", ""));
        drop(display);
        let mut stopped = stopped.map_err(|error| Failure::Failed(error.to_string()))?;
        if !stopped.complete {
            // The one that was stopped may have measured nothing.
            stopped.trials.retain(|trial| !trial.samples.is_empty());
        }
        if !stopped.complete && stopped.trials.is_empty() {
            return Err(Failure::Interrupted(
                "stopped before the first operation was measured; no results are written".to_owned(),
            ));
        }
        let (provenance, measurements) = (provenance(store), Measurement::of(&stopped.trials));
        let fitted = Fitted::all(&measurements);
        let PlanResult { left_out, complete, .. } = &stopped;
        let page = Report { provenance: &provenance, plan, fitted: &fitted, left_out, complete: *complete }.page()?;
        // Before the fits, which take long. What was measured is kept also if nobody reads it.
        let told = print(&overview::text(&page, &provenance, &measurements));
        let measured = Measured { run: &stopped, plan, provenance: &provenance, measurements: &measurements, page };
        // Whoever stops again while the profile is fitted keeps this. What is complete waits for its profile only where
        // it is to replace earlier results.
        let [stopped_there, complete_there] = [false, true].map(|all| folder::place(&self.out, all, SAMPLES));
        let early = (!complete || stopped_there == complete_there).then_some(stopped_there);
        if let Some(folder) = &early {
            measured.write(folder)?;
        }
        if let Some(folder) = early.as_ref().filter(|_| !complete) {
            let next = if has_profile(&measurements) { "; now its profile is fitted" } else { "" };
            complain(&format!("What was measured is in {}{next}.", folder.display()));
        }
        let fits = Fits::of(&measured, &fitted, stop)?;
        let is_all = *complete && !fits.stopped;
        let folder = match early {
            Some(folder) => folder,
            None => {
                let folder = if is_all { complete_there } else { folder::place(&self.out, false, SAMPLES) };
                measured.write(&folder)?;
                folder
            }
        };
        fits.write(&folder)?;
        if is_all {
            return told;
        }
        let kept = folder::kept(&self.out, &folder);
        Err(Failure::Interrupted(format!("stopped; the results so far are in {}{kept}", folder.display())))
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = if self.quick { Plan::quick() } else { Plan::full() };
        if let Some(writers) = &self.writers {
            plan.writers = counts(writers)?;
        }
        plan.trials = self.trials.unwrap_or(plan.trials);
        plan.duration = self.duration.unwrap_or(plan.duration);
        plan.body = self.body.unwrap_or(plan.body);
        if !self.operations.is_empty() {
            let names = ["cas", "create", "append", "get", "put"];
            if let Some(unknown) = self.operations.iter().find(|name| !names.contains(&name.as_str())) {
                let found = format!("--operations: found \"{unknown}\"; allowed: {}", names.join(", "));
                return Err(Failure::Mistake(found));
            }
            let asked = |name: &str| self.operations.iter().any(|asked| asked == name);
            plan.operations.retain(|operation| asked(&operation.name()));
            (plan.get, plan.put) = (asked("get"), asked("put"));
        }
        plan.check().map_err(|error| Failure::Mistake(error.to_string()))?;
        Ok(plan)
    }

    /// Prints the estimated cost on a cloud, and asks.
    fn agree(&self, url: &str, plan: &Plan) -> Result<(), Failure> {
        agree(url, self.yes, |prices| {
            let estimate = plan.estimate();
            let dollars = estimate.writes * prices.write_dollars + estimate.reads * prices.read_dollars;
            format!(
                "At most {:.0} writes, {:.0} reads and {:.0} MB: {dollars:.2} US dollars for requests at list prices ({}), \
                 without traffic. A local server costs nothing. The measurement takes {}. If operations are slow, trials \
                 last until enough of them are measured, up to {} in all.",
                estimate.writes,
                estimate.reads,
                (estimate.bytes / 1e6).ceil(),
                prices.source,
                roughly(estimate.time),
                roughly(estimate.longest_time),
            )
        })
    }
}

/// What was measured.
struct Measured<'a> {
    run: &'a PlanResult,
    plan: &'a Plan,
    provenance: &'a Provenance,
    measurements: &'a [Measurement],
    page: ReportPage,
}

impl Measured<'_> {
    /// Writes everything but the profile, in a folder without one: until all is written, files of two measurements must
    /// not pass for those of one.
    fn write(&self, folder: &Path) -> Result<(), Failure> {
        folder::claim(folder, &folder::label_of_store("measure", store_name(self.provenance)))?;
        let path = |name: &str| folder.join(name);
        folder::remove(&[&path(PROFILE), &path(ALTERNATIVES)])?;
        write_samples(&path(SAMPLES), &self.run.trials).map_err(|error| unwritable(&path(SAMPLES), &error))?;
        write(&path("report.md"), &self.page.markdown())?;
        write(&path("report.html"), &self.page.html())?;
        write(&path(compare::FILE), &compare::summary(store_name(self.provenance), self.measurements)?)
    }
}

/// What was fitted to it, as text.
struct Fits {
    profile: Option<String>,
    alternatives: Option<String>,
    /// Whether fitting was stopped.
    stopped: bool,
}

impl Fits {
    /// The profile and its alternatives. After a stop of the trials there are no alternatives, for which the user would
    /// have to wait, and only a further Ctrl-C ends the fit of the profile.
    fn of(measured: &Measured<'_>, fitted: &[Fitted<'_>], stop: &AtomicBool) -> Result<Self, Failure> {
        let Measured { run, plan, provenance, .. } = measured;
        let never = AtomicBool::new(false);
        let stop = if run.complete { stop } else { &never };
        let display = Display::new();
        let show = |done, all| display.steps(done, all, "simulations for the profile", "");
        let found = profile(fitted, (provenance, run.latency_includes_read), plan, stop, &show);
        drop(display);
        let mut found = found.filter(|_| !stop.load(Ordering::Relaxed));
        let alternatives = match &mut found {
            Some(profile) if run.complete => {
                alternatives_of(profile, &Evidence { trials: &run.trials, plan, provenance, seed: 1 }, stop)?
            }
            _ => None,
        };
        let profile = found.map(|found| toml::to_string(&found)).transpose();
        let profile = profile.map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(Self { profile, alternatives, stopped: stop.load(Ordering::Relaxed) })
    }

    /// Writes them beside what was measured, and tells of all files.
    fn write(&self, folder: &Path) -> Result<(), Failure> {
        if let Some(alternatives) = &self.alternatives {
            write(&folder.join(ALTERNATIVES), alternatives)?;
        }
        if let Some(profile) = &self.profile {
            write(&folder.join(PROFILE), profile)?;
        }
        let files = match (&self.profile, &self.alternatives) {
            (Some(_), Some(_)) => "report.html, report.md, profile.toml, profile-alternatives.toml, samples.parquet",
            (Some(_), None) => {
                "report.html, report.md, profile.toml, samples.parquet; no alternatives to the profile, \
                 because the measurement was stopped"
            }
            (None, _) if self.stopped => {
                "report.html, report.md, samples.parquet; no profile, because its fit was stopped"
            }
            (None, _) => "report.html, report.md, samples.parquet; no profile, because a profile needs cas or create",
        };
        print(&format!("\nIn {}: {files}", folder.display()))
    }
}

/// The alternatives as text, whose file the profile then names; `None` after a stop.
fn alternatives_of(
    profile: &mut Profile,
    evidence: &Evidence<'_>,
    stop: &AtomicBool,
) -> Result<Option<String>, Failure> {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let display = Display::new();
    let show = |done, all| display.steps(done, all, "alternative profiles", "");
    let Some(found) = alternatives(profile, evidence, threads, stop, &show) else { return Ok(None) };
    drop(display);
    if let Some(measured) = &mut profile.measured {
        measured.alternatives = Some(ALTERNATIVES.to_owned());
    }
    found.text().map(Some).map_err(|error| Failure::Failed(error.to_string()))
}

/// A time for people, rounded up.
fn roughly(time: Span) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 120.0 => format!("{:.0} s", seconds.ceil()),
        seconds => format!("{:.0} min", (seconds / 60.0).ceil()),
    }
}

/// `1,2,4` or `1-16`.
fn counts(text: &str) -> Result<Vec<u32>, Failure> {
    let wrong = || Failure::Mistake(format!("--writers: found \"{text}\"; allowed: counts such as 1,2,4,8 or 1-16"));
    let number = |text: &str| {
        without_leading_zeros(text.trim()).map_err(|words| Failure::Mistake(format!("--writers: {words}")))?;
        u32::from_str(text.trim()).map_err(|_| wrong())
    };
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (number(first)?, number(last)?);
        return if first <= last && last <= 256 { Ok((first..=last).collect()) } else { Err(wrong()) };
    }
    text.split(',').map(number).collect()
}

fn provenance(store: &str) -> Provenance {
    Provenance { store: store.to_owned(), machine: machine(), date: today(), program: program() }
}

fn store_name(provenance: &Provenance) -> &str {
    &provenance.store
}
