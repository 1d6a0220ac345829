fn main() {
    let config: glidepath_lab::Config =
        toml::from_str(&std::fs::read_to_string("presets/published-2026-06.toml").unwrap()).unwrap();
    let mut config = config;
    let scale = std::env::args().nth(1).unwrap_or("20ms".into());
    config.arrivals.scale = scale.parse().unwrap();
    config.catalog.latency = Some("1ms".parse().unwrap());
    let profile =
        glidepath_sim::Profile::parse(&std::fs::read_to_string("profiles/s3-standard.toml").unwrap()).unwrap();
    let point = glidepath_lab::Point::new(config, profile).unwrap();
    for seed in 1..=3 {
        let t = std::time::Instant::now();
        let out = glidepath_lab::simulate(&point, seed, glidepath_sim::Mode::LocalClocks);
        let el = t.elapsed();
        let w: Vec<_> = out
            .records
            .iter()
            .filter(|r| r.arrived.as_secs_f64() >= 900.0 && r.arrived.as_secs_f64() < 2700.0)
            .collect();
        let c: Vec<_> = w.iter().filter(|r| r.end == glidepath_workload::End::Committed).collect();
        let mut l: Vec<_> = c.iter().map(|r| r.commit_latency().as_secs_f64()).collect();
        l.sort_by(f64::total_cmp);
        println!(
            "{el:?} {:?} records {} success {:.1} thr {:.2} p50 {:.3} p95 {:.3} p99 {:.3} retries {:.2}",
            out.counts,
            out.records.len(),
            100.0 * c.len() as f64 / w.len() as f64,
            c.len() as f64 / 1800.0,
            l[l.len() / 2],
            l[l.len() * 95 / 100],
            l[l.len() * 99 / 100],
            c.iter().map(|r| r.retries as f64).sum::<f64>() / c.len() as f64
        );
    }
}
