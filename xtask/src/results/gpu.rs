//! The page of a run on a machine with a GPU (`cargo xtask bundle`, `tools/bundle/run.sh`):
//! are all results right, and how fast are they compared with PyTorch.

use super::Score;
use super::page::score;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The output of `run.sh`.
#[derive(Deserialize)]
pub struct Run {
    device: String,
    date: String,
    same_weights: bool,
    seconds: f64,
    steps: BTreeMap<String, Step>,
}

#[derive(Deserialize)]
struct Step {
    status: i32,
    seconds: f64,
    lines: Vec<Value>,
    #[serde(default)]
    errors: Vec<Value>,
}

/// A row of a benchmark, by its key.
type Rows = BTreeMap<[String; 3], Vec<(String, f64)>>;

/// Tables: title, the step that measured ours, the one that measured with tuning on, PyTorch's.
const TABLES: [(&str, &str, &str, &str); 3] = [
    ("Work of all sizes", "bench", "bench-tuned", "torch"),
    ("Work that fills a large GPU", "large", "large-tuned", "torch-large"),
    ("The processor beside it, with all of its cores", "cpu", "", "torch-cpu"),
];
/// Checks, in the order in which they are shown.
const CHECKS: [(&str, &str); 5] = [
    ("conformance", "golden cases, beside `reference`, by `==`"),
    ("random", "calls of every kind of work, drawn by chance, beside `reference`, by `==`"),
    ("memcheck", "NVIDIA's checker of accesses, on some ops"),
    ("racecheck", "NVIDIA's checker of races, on some ops"),
    ("devices", "what the device is, and whether it computes exactly"),
];
/// Ways to run a whole model: the name of their results, and the column's title.
const MODES: [(&str, &str); 5] = [
    (super::lines::OURS, "ours"),
    ("ours-graph", "ours, captured"),
    ("torch-eager", "PyTorch"),
    ("torch-compiled", "compiled"),
    ("torch-graph", "CUDA graph"),
];
/// The peer of the ratios.
const PEER: &str = "torch-eager";

impl Run {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn parse(text: &str) -> Result<Run, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }
    /// The device's name and the day, as parts of a file's name.
    pub fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or(&self.date)
    }

    /// The page. `raw`: the file next to it; `log`: a paragraph that links to the analysis of the
    /// rows, or empty.
    pub fn page(&self, raw: &str, log: &str) -> String {
        let mut page = format!(
            "# {}\n\nDate: {}. All that was printed: [{raw}]({raw}), in {:.0} seconds.\n\n{}\n\n{log}\
             ```sh\ncargo xtask bundle       # a folder, packed; it needs the GPU's driver, and no Rust\n\
             FOLDER/run.sh DIRECTORY  # there\n\
             cargo xtask results --gpu DIRECTORY/FILE.json --page PAGE\n```\n\n\
             A time is the median of at least seven calls, each of which is waited for: launching and waiting are some 8 µs of each. \
             *tuned* is with `ELINVAR_TUNE=1`. *PyTorch / ours* is how many times as fast ours is, bold where it is not slower.\n",
            self.device,
            self.day(),
            self.seconds,
            self.lines_of("gpu").first().map_or_else(String::new, |l| format!("`{l}`"))
        );
        page += &self.checks();
        for (title, ours, tuned, theirs) in TABLES {
            page += &self.table(title, [ours, tuned, theirs]).0;
        }
        page + &self.models()
    }

    /// Whole models: each way to run them, and the peak of memory.
    fn models(&self) -> String {
        let (mut rows, mut peaks) = (Rows::new(), BTreeMap::new());
        for step in ["models", "models-small", "torch-models"] {
            for (key, times) in self.rows(step) {
                rows.entry(key).or_default().extend(times);
            }
            for line in self.steps.get(step).map_or(&[][..], |s| &s.lines) {
                let text = |name: &str| line.get(name).and_then(Value::as_str);
                let workload = text("workload").and_then(|w| w.strip_prefix("peak_memory_"));
                if let (Some(workload), Some(peer), Some(mib)) =
                    (workload, text("peer"), line.get("value").and_then(Value::as_f64))
                {
                    peaks.insert([workload.to_string(), peer.to_string()], mib);
                }
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        let mut text = "\n## Whole models\n\nA step of training, a token, or a batch of sentences. *Best / best* is the least time of PyTorch \
                        over the least of ours, bold where ours is not slower.\n\n| workload | shape | type |"
            .to_string();
        MODES.iter().for_each(|(_, title)| _ = write!(text, " {title} |"));
        text += " best / best |\n|---|---|---|";
        text += &"---|".repeat(MODES.len() + 1);
        text.push('\n');
        for ([workload, shape, dtype], times) in &rows {
            _ = write!(text, "| {workload} | {shape} | {dtype} |");
            for (peer, _) in MODES {
                let time = times.iter().find(|(p, _)| p == peer).map(|(_, t)| super::page::time(*t));
                let peak =
                    peaks.get(&[workload.clone(), peer.to_string()]).map(|mib| format!(", {mib:.0} MiB"));
                _ = write!(text, " {}{} |", time.unwrap_or_default(), peak.unwrap_or_default());
            }
            let least = |ours: bool| {
                let of = times.iter().filter(|(p, _)| p.starts_with(super::lines::OURS) == ours);
                of.map(|&(_, t)| t).min_by(f64::total_cmp)
            };
            let ratio = least(false).zip(least(true)).map(|(their, our)| their / our);
            let ratio = ratio.map_or_else(String::new, |r| {
                if r >= 1.0 { format!("**{r:.2}**") } else { format!("{r:.2}") }
            });
            _ = writeln!(text, " {ratio} |");
        }
        text
    }

    /// The number of rows of each table that are ahead.
    pub fn scores(&self) -> Vec<Score> {
        let tables = TABLES.iter().map(|(title, ours, tuned, theirs)| {
            let (_, ratios) = self.table(title, [ours, tuned, theirs]);
            score(format!(": {title}"), &ratios)
        });
        tables.filter(|score| score.rows > 0).collect()
    }

    fn lines_of(&self, step: &str) -> Vec<&str> {
        self.steps.get(step).map_or_else(Vec::new, |s| s.lines.iter().filter_map(Value::as_str).collect())
    }

    fn checks(&self) -> String {
        let mut text =
            "\n## Is it right?\n\n| check | passed | seconds | what it said |\n|---|---|---|---|\n"
                .to_string();
        let same = if self.same_weights { "yes" } else { "**no**" };
        _ = writeln!(
            text,
            "| training runs of three networks: the weights' hashes on the GPU and on the processor | {same} | | |"
        );
        for (name, what) in CHECKS {
            let Some(step) = self.steps.get(name) else { continue };
            let passed = match step.status {
                0 => "yes",
                124.. => "not run, or not to its end",
                _ => "**no**",
            };
            let said = match name {
                "devices" => self.lines_of(name).into_iter().find(|l| l.starts_with("cuda")),
                "random" => {
                    self.lines_of(name).into_iter().find(|l| l.contains(" random calls of ") && !is_whole(l))
                }
                "memcheck" | "racecheck" => {
                    let mut all = step.lines.iter().chain(&step.errors).filter_map(Value::as_str);
                    all.rfind(|l| l.contains("SUMMARY"))
                }
                _ => self.lines_of(name).last().copied(),
            };
            let said = said.unwrap_or_default().replace('|', "/");
            _ = writeln!(text, "| {what} | {passed} | {} | {said} |", step.seconds);
        }
        text
    }

    /// The times of a step.
    fn rows(&self, step: &str) -> Rows {
        let mut rows = Rows::new();
        for line in self.steps.get(step).map_or(&[][..], |s| &s.lines) {
            let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_string);
            let key = || Some([text("workload")?, text("shape")?, text("dtype")?]);
            if let (Some(key), Some(peer), Some(time)) =
                (key(), text("peer"), line.get("median_s").and_then(Value::as_f64))
            {
                rows.entry(key).or_default().push((peer, time));
            }
        }
        rows
    }

    /// A table, and its ratios.
    fn table(&self, title: &str, steps: [&str; 3]) -> (String, Vec<f64>) {
        let [ours, tuned, theirs] = steps.map(|s| self.rows(s));
        let (mut lines, mut ratios) = (String::new(), Vec::new());
        let order = self.steps.get(steps[0]).map_or(&[][..], |s| &s.lines);
        let mut seen = Vec::new();
        for line in order {
            let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
            let key = [text("workload"), text("shape"), text("dtype")];
            let of = |rows: &Rows, peer: &str| {
                rows.get(&key).and_then(|all| all.iter().find(|(p, _)| p == peer)).map(|&(_, t)| t)
            };
            let Some(mine) = of(&ours, super::lines::OURS) else { continue };
            if seen.contains(&key) {
                continue;
            }
            let (best, their) = (of(&tuned, super::lines::OURS), of(&theirs, PEER));
            let per = |name: &str, unit: &str, scale: f64| {
                line.get(name)
                    .and_then(Value::as_f64)
                    .filter(|&n| n > 0.0)
                    .map(|n| format!("{:.1} {unit}", n / mine / scale))
            };
            let rate =
                per("flops", "TFLOP/s", 1e12).or_else(|| per("bytes", "GB/s", 1e9)).unwrap_or_default();
            let others: Vec<String> = (theirs.get(&key).into_iter().flatten())
                .filter(|(peer, _)| peer != PEER)
                .map(|(peer, t)| format!("{peer} {}", super::page::time(*t)))
                .collect();
            let ratio = their.map(|t| t / best.map_or(mine, |b| b.min(mine)));
            ratios.extend(ratio);
            let cell = |t: Option<f64>| t.map_or_else(String::new, super::page::time);
            let ratio = ratio.map_or_else(String::new, |r| {
                if r >= 1.0 { format!("**{r:.2}**") } else { format!("{r:.2}") }
            });
            _ = writeln!(
                lines,
                "| {} | {} | {} | {} | {rate} | {} | {} | {ratio} | {} |",
                key[0],
                key[1],
                key[2],
                super::page::time(mine),
                cell(best),
                cell(their),
                others.join(", ")
            );
            seen.push(key);
        }
        if lines.is_empty() {
            return (String::new(), ratios);
        }
        let Score { rows, ahead, mean, .. } = score(String::new(), &ratios);
        let text = format!(
            "\n## {title}\n\n{ahead} of {rows} rows are not slower than PyTorch's; the geometric mean of *PyTorch / ours* is {mean:.2}.\n\n\
             | workload | shape | type | ours | rate | tuned | PyTorch | PyTorch / ours | others |\n|---|---|---|---|---|---|---|---|---|\n{lines}"
        );
        (text, ratios)
    }
}

/// Does a line report that all calls are right: "25 of 25 random calls of ..."?
fn is_whole(line: &str) -> bool {
    let mut words = line.split(' ');
    matches!((words.next(), words.next(), words.next()), (Some(right), Some("of"), Some(all)) if right == all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_small_run() {
        let text = r#"{"device":"NVIDIA X","date":"2026-01-02T03:04:05Z","same_weights":true,"seconds":9,"steps":{
"gpu":{"status":0,"seconds":0,"lines":["NVIDIA X, 580"],"errors":[]},
"conformance":{"status":0,"seconds":5,"lines":["abs 3 passed","3 passed, 0 failed, 0 skipped"],"errors":[]},
"racecheck":{"status":124,"seconds":5,"lines":[],"errors":[]},
"large":{"status":0,"seconds":1,"lines":[
 {"peer":"ours","workload":"gemm_nn","shape":"8x8x8","dtype":"f32","median_s":2e-5,"flops":40000000},
 {"peer":"ours","workload":"copy","shape":"9","dtype":"f32","median_s":1e-5,"flops":0,"bytes":10000}],"errors":[]},
"large-tuned":{"status":0,"seconds":1,"lines":[{"peer":"ours","workload":"gemm_nn","shape":"8x8x8","dtype":"f32","median_s":1e-5}],"errors":[]},
"models":{"status":0,"seconds":1,"lines":[
 {"peer":"ours","workload":"train_gpt2","shape":"L1","dtype":"f32","median_s":2e-3},
 {"peer":"ours-graph","workload":"train_gpt2","shape":"L1","dtype":"f32","median_s":1e-3},
 {"peer":"ours","workload":"peak_memory_train_gpt2","value":10.4,"unit":"MiB"}],"errors":[]},
"torch-models":{"status":0,"seconds":1,"lines":[
 {"peer":"torch-compiled","workload":"train_gpt2","shape":"L1","dtype":"f32","median_s":1.5e-3}],"errors":[]},
"torch-large":{"status":0,"seconds":1,"lines":[
 {"peer":"torch-eager","workload":"gemm_nn","shape":"8x8x8","dtype":"f32","median_s":1.5e-5},
 {"peer":"torch-eager-nhwc","workload":"gemm_nn","shape":"8x8x8","dtype":"f32","median_s":3e-5},
 {"peer":"torch-eager","workload":"copy","shape":"9","dtype":"f32","median_s":5e-6}],"errors":[]}}}"#;
        let page = Run::parse(text).unwrap().page("x.json", "The bus.\n\n");
        for line in [
            "# NVIDIA X",
            "Date: 2026-01-02. All that was printed: [x.json](x.json), in 9 seconds.",
            "| golden cases, beside `reference`, by `==` | yes | 5 | 3 passed, 0 failed, 0 skipped |",
            "| NVIDIA's checker of races, on some ops | not run, or not to its end | 5 |  |",
            "The bus.",
            "1 of 2 rows are not slower than PyTorch's; the geometric mean of *PyTorch / ours* is 0.87.",
            "| gemm_nn | 8x8x8 | f32 | 20.0 µs | 2.0 TFLOP/s | 10.0 µs | 15.0 µs | **1.50** | torch-eager-nhwc 30.0 µs |",
            "| copy | 9 | f32 | 10.0 µs | 1.0 GB/s |  | 5.00 µs | 0.50 |  |",
            "| workload | shape | type | ours | ours, captured | PyTorch | compiled | CUDA graph | best / best |",
            "| train_gpt2 | L1 | f32 | 2.00 ms, 10 MiB | 1.00 ms |  | 1.50 ms |  | **1.50** |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
        assert!(Run::parse("{}").is_err());
    }
}
