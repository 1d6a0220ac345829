//! Tests.
use super::*;
#[test]
fn look() {
    let published = Published::load().unwrap();
    let profile = Profile::parse(include_str!("../../../../../profiles/s3-standard.toml")).unwrap();
    let t = std::time::Instant::now();
    let sweep = simulate(
        published,
        &profile,
        Extent { rows: vec![], writers: vec![10, 50, 200], seeds: (3, 1) },
        NonZeroUsize::new(2).unwrap(),
        &AtomicBool::new(false),
    )
    .unwrap();
    eprintln!("{:?} {:?}", t.elapsed(), sweep.fit);
    for (i, p) in sweep.published.continuous(&sweep.extent).enumerate() {
        let (a, b) = (sweep.principles.continuous[i], sweep.fitted.continuous[i]);
        eprintln!(
            "{:>8} {:5} | {:.2} {:.0} {:.0} | {:.2} {:.0} {:.0} | {:.2} {:.0} {:.0}",
            p.rows,
            p.indexed,
            p.commits_per_s,
            p.p50_ms,
            p.p99_ms,
            a.commits_per_s,
            a.p50_ms,
            a.p99_ms,
            b.commits_per_s,
            b.p50_ms,
            b.p99_ms
        );
    }
    for (i, p) in sweep.published.concurrent(&sweep.extent).enumerate() {
        let (a, b) = (sweep.principles.concurrent[i], sweep.fitted.concurrent[i]);
        eprintln!(
            "{:>8} {:5} {:>3} | {:.2} {:.0} | {:.2} {:.0} ({:.0}) | {:.2} {:.0} ({:.0})",
            p.rows,
            p.indexed,
            p.writers,
            p.commits_per_s,
            p.errors,
            a.commits_per_s,
            a.errors,
            a.errors_in_time,
            b.commits_per_s,
            b.errors,
            b.errors_in_time
        );
    }
}
