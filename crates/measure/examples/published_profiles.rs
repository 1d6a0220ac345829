//! Makes `profiles/*-2025-06.toml` from the published measurements of June 2025.
//!
//! `cargo run --release -p glidepath-measure --example published_profiles [FOLDER]`, from the root of the repository.

use std::error::Error;
use std::path::Path;

use glidepath_measure::{FailureRate, Operation, Rehearsal, fit_holds};
use glidepath_model::Span;
use glidepath_sim::{ContendedProfile, Distribution, OperationProfile, Profile, RateCap};

const TIERS: [&str; 5] = ["s3-standard", "s3-express", "azure-standard", "azure-premium", "gcs"];

const SOURCE: &str = "measured June 2025, one object, closed loop, 5 trials (\"Conditional Write Simulation Summary\")";

/// The shares of the quantiles in the file's columns.
const SHARES: [(&str, f64); 9] = [
    ("p5_ms", 0.05),
    ("p10_ms", 0.10),
    ("p25_ms", 0.25),
    ("p50_ms", 0.50),
    ("p75_ms", 0.75),
    ("p90_ms", 0.90),
    ("p95_ms", 0.95),
    ("p99_ms", 0.99),
    ("p99_9_ms", 0.999),
];

/// The fewest failures for which a distribution is used.
const FEWEST: f64 = 100.0;

/// A line of the file, by the names of its columns.
struct Line<'a> {
    head: &'a [&'a str],
    cells: Vec<&'a str>,
}

impl Line<'_> {
    fn text(&self, name: &str) -> &str {
        let column = self.head.iter().position(|known| *known == name);
        column.and_then(|column| self.cells.get(column)).copied().unwrap_or_default()
    }

    fn number(&self, name: &str) -> Result<f64, Box<dyn Error>> {
        self.text(name).parse().map_err(|error| format!("{name}: {:?}: {error}", self.text(name)).into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "profiles".to_owned());
    let folder = Path::new(&folder);
    let text = std::fs::read_to_string("profiles/measured/conditional-writes-2025-06.csv")?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let lines: Vec<Line<'_>> = lines.map(|line| Line { head: &head, cells: line.split(',').collect() }).collect();
    for tier in TIERS {
        let flat = Profile::parse(&std::fs::read_to_string(format!("profiles/{tier}.toml"))?)?;
        let profile = tier_profile(tier, &flat, &lines)?;
        let path = folder.join(format!("{tier}-2025-06.toml"));
        let made = "# Made by `cargo run --release -p glidepath-measure --example published_profiles`; see \
                    docs/measured-profiles.md.\n\n";
        std::fs::write(&path, format!("{made}{}", toml::to_string(&profile)?))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn tier_profile(tier: &str, flat: &Profile, lines: &[Line<'_>]) -> Result<Profile, Box<dyn Error>> {
    let (conditional_put, cas_rates) =
        operation(lines, tier, "cas", &flat.conditional_put)?.ok_or("every tier was measured")?;
    let append = match &flat.append {
        Some(flat) => operation(lines, tier, "append", flat)?,
        None => None,
    };
    let (append, append_rates) = append.map_or((None, Vec::new()), |(append, rates)| (Some(append), rates));
    let mut profile = Profile {
        title: format!("{}, as measured in June 2025", flat.title.split(", as ").next().unwrap_or(tier)),
        source: format!("{SOURCE}; reads and unguarded writes were not measured then, and are those of {tier}.toml"),
        get: flat.get.clone(),
        put: flat.put.clone(),
        conditional_put,
        append,
        latency_includes_read: true,
        // GCS documents one write per second and object, and 1.4 were sustained: the cap is just above that. The burst
        // is assumed: large enough for the observed runs of fast writes by a lone writer.
        catalogs_only: false,
        rate_cap: (tier == "gcs").then_some(RateCap { writes_per_s: 1.6, burst: 120.0 }),
        measured: None,
    };
    fit_holds(&mut profile, Operation::Cas, &cas_rates, &Rehearsal::long());
    fit_holds(&mut profile, Operation::Append, &append_rates, &Rehearsal::long());
    Ok(profile)
}

/// A measured operation, and its failure rate at each number of writers.
type Measured = (OperationProfile, Vec<FailureRate>);

/// One operation of a tier from the table; `None` if it was not measured.
fn operation(
    lines: &[Line<'_>],
    tier: &str,
    name: &str,
    flat: &OperationProfile,
) -> Result<Option<Measured>, Box<dyn Error>> {
    let of = |outcome: &str| {
        let wanted = [("tier", tier), ("operation", name), ("outcome", outcome)];
        let fits = move |line: &&Line<'_>| wanted.iter().all(|(column, value)| line.text(column) == *value);
        lines.iter().filter(fits).collect::<Vec<_>>()
    };
    let (successes, failures) = (of("success"), of("failure"));
    let Some(first) = successes.first() else { return Ok(None) };
    let (mut contended, mut rates) = (Vec::new(), Vec::new());
    for success in &successes {
        let failure = failures.iter().find(|failure| failure.text("threads") == success.text("threads"));
        let counted = match failure {
            Some(failure) if failure.number("operations")? >= FEWEST => Some(distribution(failure)?),
            _ => None,
        };
        contended.push(ContendedProfile {
            writers: success.text("threads").parse()?,
            hold: Span::ZERO,
            success: distribution(success)?,
            failure: counted,
        });
        // The publication does not say how the rate varied.
        rates.push(FailureRate { rate: success.number("failure_rate")?, error: 0.005 });
    }
    let (median, p95) = (first.number("p50_ms")?, first.number("p95_ms")?);
    let profile = OperationProfile {
        median: millis(median),
        per_mib: flat.per_mib,
        sigma: ((p95 / median).ln() / 1.645 * 1e4).round() / 1e4,
        floor: millis(first.number("min_ms")?),
        source: format!(
            "{SOURCE}: {name}. contended: quantiles as printed, the tail bent so that the mean is the printed one; \
             holds fitted to the failure rates. Latencies are taken to include learning what is there now: only so do \
             latencies and rates fit together. per_mib is that of put (assumed)"
        ),
        contended,
        effect_after: None,
        effect_share: None,
    };
    Ok(Some((profile, rates)))
}

/// The printed quantiles, and one more between each two of the tail, placed so that the mean is the printed one.
fn distribution(line: &Line<'_>) -> Result<Distribution, Box<dyn Error>> {
    let mut printed = vec![(0.0, line.number("min_ms")?)];
    for (column, share) in SHARES {
        printed.push((share, line.number(column)?));
    }
    printed.push((1.0, line.number("max_ms")?));
    let (mean, mut low, mut high) = (line.number("mean_ms")?, 0.0, 1.0);
    for _ in 0..40 {
        let bend = (low + high) / 2.0;
        if bent(&printed, bend).mean_ns() / 1e6 < mean { low = bend } else { high = bend }
    }
    let found = bent(&printed, low);
    if (found.mean_ns() / 1e6 / mean - 1.0).abs() > 0.01 {
        let what = ["tier", "operation", "threads", "outcome"].map(|column| line.text(column)).join(" ");
        println!("{what}: mean {:.1} ms, printed {mean:.1} ms", found.mean_ns() / 1e6);
    }
    Ok(found)
}

/// Adds a quantile in the middle of each segment from the median on: at 0 equal to its lower neighbour, at 1 to its
/// upper one, on a logarithmic scale between.
fn bent(printed: &[(f64, f64)], bend: f64) -> Distribution {
    let mut quantiles = Vec::new();
    for (index, (share, at)) in printed.iter().enumerate() {
        if index > 0 && *share > 0.5 {
            let (before, low) = printed[index - 1];
            let middle = low.max(1e-3) * (at / low.max(1e-3)).powf(bend);
            quantiles.push(((before + share) / 2.0, millis(middle)));
        }
        quantiles.push((*share, millis(*at)));
    }
    for (share, _) in &mut quantiles {
        *share = (*share * 1e6).round() / 1e6;
    }
    Distribution { quantiles, ..Distribution::default() }
}

fn millis(millis: f64) -> Span {
    Span::from_nanos_f64((millis * 1e3).round() * 1e3)
}
