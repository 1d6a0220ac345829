    use super::*;
    use crate::{Config, Metrics, Point, simulate};
    fn provider(name: &str) -> glidepath_sim::Profile {
        let text = std::fs::read_to_string(format!("../../profiles/{name}.toml")).unwrap();
        glidepath_sim::Profile::parse(&text).unwrap()
    }
    fn run(folder: &str, axes: &[(&str, &[&str])], seeds: u64, base: &dyn Fn(&mut toml::Table)) {
        let text = std::fs::read_to_string("../../presets/published-2026-06.toml").unwrap();
        let mut table: toml::Table = text.parse().unwrap();
        base(&mut table);
        let mut combos: Vec<Vec<(String, String)>> = vec![vec![]];
        for (key, values) in axes {
            combos = combos.into_iter().flat_map(|c| values.iter().map(move |v| { let mut c = c.clone(); c.push((key.to_string(), v.to_string())); c })).collect();
        }
        let next = AtomicUsize::new(0);
        let out = Mutex::new(vec![None; combos.len()]);
        std::thread::scope(|s| for _ in 0..2 { s.spawn(|| loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(c) = combos.get(i) else { break };
            let mut t = table.clone();
            for (k, v) in c {
                let mut at = &mut t;
                let mut parts: Vec<&str> = k.split('.').collect();
                let last = parts.pop().unwrap();
                for p in parts { at = at.get_mut(p).unwrap().as_table_mut().unwrap(); }
                if k == "alternative" {
                    let r = t.get_mut("retry").unwrap().as_table_mut().unwrap();
                    let slow: toml::Value = "x = { exponential = { first = \"100ms\", factor = 2.0, longest = \"10s\", jitter = { low = 0.5, high = 1.0 } } }".parse::<toml::Table>().unwrap()["x"].clone();
                    if v.contains("table") || v == "back-off" { r.insert("table".into(), slow.clone()); }
                    if v == "back-off" { r.insert("catalog".into(), slow); }
                    continue;
                }
                let value: toml::Value = v.parse::<i64>().map(toml::Value::from).or(v.parse::<f64>().map(toml::Value::from)).unwrap_or(toml::Value::from(v.clone()));
                at.insert(last.into(), value);
            }
            let config: Config = t.try_into().unwrap();
            let profile = provider(&config.provider);
            let point = Point::new(config, profile).unwrap();
            let runs: Vec<Metrics> = (1..=seeds).map(|seed| Metrics::of(&point, &simulate(&point, seed, glidepath_sim::Mode::LocalClocks))).collect();
            out.lock().unwrap()[i] = Some(gather::cell(&point, &runs));
        }); });
        let cells = combos.into_iter().zip(out.into_inner().unwrap()).map(|(c, cell)| (c, cell.unwrap())).collect();
        let view = View::new(cells, seeds as usize);
        let pictures = plan_view(&view);
        let t = std::time::Instant::now();
        write(Path::new(folder), &pictures).unwrap();
        println!("{} pictures in {:?}", pictures.len(), t.elapsed());
    }
    const LOADS: &[&str] = &["20ms", "50ms", "100ms", "200ms", "300ms", "400ms", "500ms", "1s", "2s", "5s"];
    #[test]
    #[ignore]
    fn draw() {
        run("/tmp/p/1a", &[("arrivals.scale", LOADS)], 3, &|t| { t["catalog"].as_table_mut().unwrap().insert("latency".into(), "1ms".into()); });
        run("/tmp/p/4a", &[("arrivals.scale", LOADS), ("tables.count", &["1", "5", "10", "50"]), ("catalog.latency", &["1ms", "10ms", "50ms", "120ms"])], 1, &|t| { t["tables"].as_table_mut().unwrap().insert("choice".into(), toml::Value::Table("zipf = 1.5".parse().unwrap())); });
        run("/tmp/p/retry", &[("arrivals.scale", LOADS), ("alternative", &["immediate", "back-off for table conflicts", "back-off"])], 2, &|t| {
            t["arrivals"].as_table_mut().unwrap().insert("burst".into(), toml::Value::Table("every = \"10min\"\nlasts = \"1min\"\nfactor = 4.0".parse().unwrap()));
            t["transaction"].as_table_mut().unwrap().insert("fast_append".into(), 0.9.into());
        });
    }
    #[test]
    #[ignore]
    fn draw_4c() {
        run("/tmp/p/4c", &[("arrivals.scale", LOADS), ("provider", &["s3-standard", "s3-express", "gcs"]), ("tables.count", &["1", "2", "10", "50"]), ("transaction.fast_append", &["1.0", "0.9", "0.5"])], 1, &|_| {});
    }
