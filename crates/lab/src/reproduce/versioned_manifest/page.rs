//! The page: every published cell beside the simulated one and our chain.

use std::fmt::Write;

use glidepath_page::signed;
use glidepath_point::MODEL_VERSION;

use super::{Continuous, Costs, Crowd, Ours, Sweep};
use crate::reproduce::page::{Made, number, processors};

const FINDINGS: &str = include_str!("findings.md");
const OUR_CHAIN: &str = include_str!("our_chain.md");

/// The tolerance of a rate, a latency or a count of errors, as a share of the published one. Published neighbours that
/// should be equal (1,000 and 2,000 rows, 100 and 120 writers) differ by as much.
const NEAR: f64 = 0.25;

/// The tolerance of errors as a number.
const NEAR_ERRORS: f64 = 10.0;

/// Writing into a string cannot fail.
macro_rules! line {
    ($page:expr, $($format:tt)*) => {{ let _ = writeln!($page, $($format)*); }};
}

/// The page as Markdown. `picture` is the picture's name beside the page.
#[must_use]
pub fn write(sweep: &Sweep, ours: &[Ours], made: &Made, picture: &str) -> String {
    let mut page = String::from("# Reproduction of the published sweep of a versioned manifest\n\n");
    verdict(&mut page, sweep);
    about(&mut page, sweep, made);
    line!(page, "![Commits per second by rows, published and simulated]({picture})\n");
    nearness(&mut page, sweep);
    page.push_str(FINDINGS);
    costs(&mut page, sweep);
    one_process(&mut page, sweep);
    our_chain(&mut page, sweep, ours);
    many_processes(&mut page, sweep);
    page
}

fn verdict(page: &mut String, sweep: &Sweep) {
    let mut close = kinds(sweep).into_iter().filter(|(kind, _)| kind.ends_with("commits/s")).map(|(kind, cells)| {
        let near = cells.iter().filter(|cell| is_near(kind, cell[0], cell[1])).count();
        let who = kind.split(':').next().unwrap_or(kind);
        format!("{near} of {} with {who}", cells.len())
    });
    let (one, many) = (close.next().unwrap_or_default(), close.next().unwrap_or_default());
    line!(page, "**From first principles, these rates are within 25 % of the published ones: {one}, {many}.**\n");
}

fn about(page: &mut String, sweep: &Sweep, made: &Made) {
    let (one, many) = sweep.extent.seeds;
    if made.quick {
        page.push_str("**A coarse run**: only a few sizes and numbers of writers, and fewer seeds.\n\n");
    }
    line!(page, "Made by `{}` at revision {}, model version {MODEL_VERSION}.", made.command, made.git_revision);
    if let Some(seconds) = made.seconds {
        line!(page, "It took {seconds:.0} s on this machine ({} processors).", processors());
    }
    line!(
        page,
        "The figures are means: over {one} seeds of 100 commits by one process, and over {many} seeds of 30 s by \
         many.\n"
    );
}

/// A cell's figures of one kind: published, from first principles, fitted.
type Kind = (&'static str, Vec<[f64; 3]>);

fn kinds(sweep: &Sweep) -> Vec<Kind> {
    let one: Vec<[Continuous; 3]> = one(sweep);
    let many: Vec<[Crowd; 3]> = many(sweep);
    let of_one = |of: fn(&Continuous) -> f64| one.iter().map(|cells| cells.each_ref().map(of)).collect();
    let of_many = |of: fn(&Crowd) -> f64| many.iter().map(|cells| cells.each_ref().map(of)).collect();
    vec![
        ("one process: commits/s", of_one(|cell| cell.commits_per_s)),
        ("one process: P50", of_one(|cell| cell.p50_ms)),
        ("one process: P99", of_one(|cell| cell.p99_ms)),
        ("many processes: commits/s", of_many(|cell| cell.commits_per_s)),
        (ERRORS, of_many(|cell| cell.errors)),
    ]
}

const ERRORS: &str = "many processes: errors";

fn one(sweep: &Sweep) -> Vec<[Continuous; 3]> {
    let published = sweep.published.continuous(&sweep.extent);
    let simulated = sweep.principles.continuous.iter().zip(&sweep.fitted.continuous);
    published.zip(simulated).map(|(published, (principles, fitted))| [*published, *principles, *fitted]).collect()
}

fn many(sweep: &Sweep) -> Vec<[Crowd; 3]> {
    let published = sweep.published.concurrent(&sweep.extent);
    let simulated = sweep.principles.concurrent.iter().zip(&sweep.fitted.concurrent);
    published.zip(simulated).map(|(published, (principles, fitted))| [published, *principles, *fitted]).collect()
}

fn nearness(page: &mut String, sweep: &Sweep) {
    line!(page, "## How close the simulation comes\n");
    line!(
        page,
        "A cell is near if it is within 25 % of the published figure; for errors also if it is within {NEAR_ERRORS}. \
         The deviation is the median.\n"
    );
    line!(page, "| figures | cells | first principles: near | deviation | fitted: near | deviation |");
    line!(page, "|---|--:|--:|--:|--:|--:|");
    for (kind, cells) in kinds(sweep) {
        let near = |which: usize| cells.iter().filter(|cell| is_near(kind, cell[0], cell[which])).count();
        let usual = |which: usize| {
            let of = cells.iter().filter(|cell| cell[0] > 0.0);
            let mut deviations: Vec<f64> = of.map(|cell| cell[which] / cell[0] - 1.0).collect();
            deviations.sort_unstable_by(f64::total_cmp);
            deviations
                .get(deviations.len() / 2)
                .map_or("-".to_owned(), |share| format!("{} %", signed(100.0 * share, 0)))
        };
        line!(page, "| {kind} | {} | {} | {} | {} | {} |", cells.len(), near(1), usual(1), near(2), usual(2));
    }
    page.push('\n');
}

fn is_near(kind: &str, published: f64, found: f64) -> bool {
    let off = (found - published).abs();
    off <= NEAR * published || (kind == ERRORS && off <= NEAR_ERRORS)
}

fn costs(page: &mut String, sweep: &Sweep) {
    let Costs { retries, wait_per_try, whole_up_to_bytes, range_bytes, part_bytes, .. } = sweep.published.costs;
    let Costs { read_per_mib, processor_per_commit, processor_per_row, index_processor_per_row, .. } =
        sweep.published.costs;
    let fit = sweep.fit;
    line!(page, "## Inputs\n");
    line!(page, "Every request uses the profile `s3-standard`. The other inputs are:\n");
    line!(page, "| input | value | fitted | source |\n|---|--:|--:|---|");
    let rows = [
        ("retries", "tries after the first", retries.to_string(), String::new()),
        ("wait_per_try", "wait after a lost try, times the number of the try", wait_per_try.to_string(), String::new()),
        ("whole_up_to_bytes", "read by one request, bytes", whole_up_to_bytes.to_string(), String::new()),
        ("range_bytes", "ranges of larger reads, bytes", range_bytes.to_string(), String::new()),
        ("part_bytes", "parts of larger writes, bytes", part_bytes.to_string(), String::new()),
        ("read_per_mib", "each MiB of a read", read_per_mib.to_string(), String::new()),
        ("processor_per_commit", "the client's work in each try", processor_per_commit.to_string(), String::new()),
        ("processor_per_row", "for each row", processor_per_row.to_string(), format!("{:.0}ns", fit.per_row_ns)),
        (
            "index_processor_per_row",
            "for each row of new indices",
            index_processor_per_row.to_string(),
            format!("{:.0}ns", fit.index_per_row_ns),
        ),
    ];
    for (key, words, value, fitted) in rows {
        let source = sweep.published.sources.get(key).map_or("", String::as_str);
        line!(page, "| {words} | {value} | {fitted} | {source} |");
    }
    let fitted = fit.read_median_ms;
    line!(page, "| median of a read | {} | {fitted:.1}ms | the profile `s3-standard` |\n", sweep.read_median);
    line!(page, "Bytes that a commit writes, as counted:\n");
    line!(page, "| rows | data file | index by object id | its table of pages | the two other indices |");
    line!(page, "|--:|--:|--:|--:|--:|");
    for sizes in &sweep.published.sizes {
        let (data, index) = (sizes.data_bytes, sizes.index_bytes);
        let (lookup, bitmaps) = (sizes.lookup_bytes, sizes.bitmap_bytes);
        line!(page, "| {} | {data} | {index} | {lookup} | {bitmaps} |", sizes.rows);
    }
    page.push('\n');
}

fn variant(indexed: bool) -> &'static str {
    if indexed { "with indices" } else { "without indices" }
}

/// A figure and its deviation from the published one.
fn beside(published: f64, found: f64) -> String {
    match published > 0.0 {
        true => format!("{} ({} %)", number(found), signed(100.0 * (found / published - 1.0), 0)),
        false => "-".to_owned(),
    }
}

/// A count of errors, and its difference from the published one.
fn errors_beside(published: f64, found: f64) -> String {
    match published > NEAR_ERRORS {
        true => format!("{found:.0} ({} %)", signed(100.0 * (found / published - 1.0), 0)),
        false => format!("{found:.0} ({})", signed(found - published, 0)),
    }
}

fn one_process(page: &mut String, sweep: &Sweep) {
    for indexed in [true, false] {
        line!(page, "## One process, {}\n", variant(indexed));
        line!(
            page,
            "| rows | commits/s: published | first principles | fitted | P50 ms: published | first principles | fitted \
             | P99 ms: published | first principles | fitted |"
        );
        line!(page, "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        for [published, principles, fitted] in one(sweep).iter().filter(|cells| cells[0].indexed == indexed) {
            let figures: [fn(&Continuous) -> f64; 3] =
                [|cell| cell.commits_per_s, |cell| cell.p50_ms, |cell| cell.p99_ms];
            let columns = figures.map(|of| {
                let (ours, theirs) = (beside(of(published), of(principles)), beside(of(published), of(fitted)));
                format!("{} | {ours} | {theirs}", number(of(published)))
            });
            line!(page, "| {} | {} |", published.rows, columns.join(" | "));
        }
        page.push('\n');
    }
}

fn our_chain(page: &mut String, sweep: &Sweep, ours: &[Ours]) {
    page.push_str(OUR_CHAIN);
    line!(
        page,
        "| rows | 1 process: published | ours | times | 10 processes: published | ours | times \
         | 200 processes: published | ours | times | errors: published, ours | ours, 200 threads |"
    );
    line!(page, "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for published in sweep.published.continuous(&sweep.extent).filter(|cell| cell.indexed) {
        let crowd = |writers: u32| {
            let mut cells = sweep.published.concurrent(&sweep.extent);
            cells.find(|cell| cell.indexed && cell.rows == published.rows && cell.writers == writers)
        };
        let our = |writers: u32, shared: bool| {
            ours.iter().find(|cell| (cell.rows, cell.writers, cell.shared) == (published.rows, writers, shared))
        };
        let pair = |before: Option<f64>, writers: u32| match (before, our(writers, false)) {
            (Some(before), Some(ours)) => {
                let times = ours.commits_per_s / before;
                format!("{} | {} | {}", number(before), words(ours), number(times))
            }
            _ => "- | - | -".to_owned(),
        };
        let many = crowd(200);
        line!(
            page,
            "| {} | {} | {} | {} | {}, {} | {} |",
            published.rows,
            pair(Some(published.commits_per_s), 1),
            pair(crowd(10).map(|cell| cell.commits_per_s), 10),
            pair(many.map(|cell| cell.commits_per_s), 200),
            many.map_or("-".to_owned(), |cell| cell.errors.to_string()),
            our(200, false).map_or("-".to_owned(), |cell| cell.errors.to_string()),
            our(200, true).map_or("-".to_owned(), words),
        );
    }
    page.push('\n');
}

fn words(ours: &Ours) -> String {
    format!("{} ({:.0}, {:.0})", number(ours.commits_per_s), ours.p50_ms, ours.p99_ms)
}

fn many_processes(page: &mut String, sweep: &Sweep) {
    for indexed in [true, false] {
        line!(page, "## Many processes, {}\n", variant(indexed));
        line!(
            page,
            "| rows | processes | commits/s: published | first principles | fitted | errors: published | first \
             principles | fitted | errors within 30 s, first principles |"
        );
        line!(page, "|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        for [published, principles, fitted] in many(sweep).iter().filter(|cells| cells[0].indexed == indexed) {
            let (rate, errors) = (published.commits_per_s, published.errors);
            line!(
                page,
                "| {} | {} | {} | {} | {} | {errors:.0} | {} | {} | {:.0} |",
                published.rows,
                published.writers,
                number(rate),
                beside(rate, principles.commits_per_s),
                beside(rate, fitted.commits_per_s),
                errors_beside(errors, principles.errors),
                errors_beside(errors, fitted.errors),
                principles.errors_in_time,
            );
        }
        page.push('\n');
    }
}
