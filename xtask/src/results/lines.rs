//! Lines of measurements: times, other figures, and the limits of the machine.
//!
//! A time has the key (peer, workload, shape, dtype, threads). Group, operations and bytes of a row
//! are in our own lines only, so the page's rows are those that we have measured.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The peer of our lines: this name, and variants with a dash after it.
pub const OURS: &str = "ours";
/// The suffix of workloads that are not exact.
const FAST: &str = "_fast";
/// The suffix of workloads with prepacked weights.
const PREPACKED: &str = "_prepacked";
/// Peers that pack the weights of a linear layer when a model is loaded, before any time is taken.
const PREPACKS: [&str; 1] = ["onnxruntime"];
/// The machine itself.
const LIMIT: &str = "limit";

/// The fields of a line.
#[derive(Deserialize)]
struct Line {
    peer: String,
    #[serde(default)]
    version: String,
    workload: String,
    #[serde(default)]
    shape: String,
    #[serde(default)]
    dtype: String,
    threads: usize,
    median_s: Option<f64>,
    gflops: Option<f64>,
    gbps: Option<f64>,
    value: Option<f64>,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    flops: f64,
    #[serde(default)]
    bytes: f64,
}

/// The key of a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub workload: String,
    pub shape: String,
    pub dtype: String,
    pub threads: usize,
}

impl Key {
    /// Is it a linear layer whose weights are not prepacked?
    fn is_unpacked(&self) -> bool {
        self.workload.starts_with("linear") && !self.workload.ends_with(PREPACKED)
    }
    /// Is it a row whose sums need not be exact?
    fn is_fast(&self) -> bool {
        self.workload.ends_with(FAST)
    }
    /// The key of the peers' times: a row may be a variant of the same work, for which they have no
    /// name.
    fn of_others(&self) -> Key {
        const WAYS: [&str; 2] = [PREPACKED, FAST];
        let plain = WAYS.iter().find_map(|way| self.workload.strip_suffix(way));
        Key { workload: plain.unwrap_or(&self.workload).into(), ..self.clone() }
    }
}

/// A row of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Key,
    pub group: String,
    pub flops: f64,
    pub bytes: f64,
}

/// A figure other than a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub value: f64,
    pub unit: String,
}

/// All lines that were read.
#[derive(Debug, Default)]
pub struct Lines {
    /// In the order of our lines.
    pub rows: Vec<Row>,
    /// Seconds by row and peer.
    pub times: BTreeMap<Key, BTreeMap<String, f64>>,
    /// By workload and peer.
    pub figures: BTreeMap<String, BTreeMap<String, Figure>>,
    /// By peer.
    pub versions: BTreeMap<String, String>,
    /// Limits of the machine: operations or bytes per second.
    limits: BTreeMap<Key, f64>,
    /// Lines as read, by their key.
    raw: Vec<((String, Key), String)>,
}

impl Lines {
    /// Adds a file's lines. Lines that are not objects are skipped: programs also print text for
    /// people.
    ///
    /// # Errors
    /// A sentence with the line that is an object, but not of these.
    pub fn read(&mut self, file: &str, text: &str) -> Result<(), String> {
        for (i, text) in text.lines().enumerate().filter(|(_, text)| text.starts_with('{')) {
            let at = |what: &str| format!("{file}:{}: {what}", i + 1);
            let line: Line = serde_json::from_str(text).map_err(|e| at(&e.to_string()))?;
            self.add(line, text).map_err(|what| at(&what))?;
        }
        Ok(())
    }

    fn add(&mut self, line: Line, text: &str) -> Result<(), String> {
        let Line { workload, shape, dtype, threads, .. } = line;
        let key = Key { workload, shape, dtype, threads };
        let about = (line.peer.clone(), key.clone());
        self.raw.retain(|(other, _)| *other != about);
        self.raw.push((about, text.to_string()));
        if !line.version.is_empty() && line.peer != LIMIT {
            self.versions.insert(line.peer.clone(), line.version);
        }
        match (line.value, line.median_s, line.gflops.or(line.gbps)) {
            (Some(value), ..) => {
                let figure = Figure { value, unit: line.unit };
                self.figures.entry(key.workload).or_default().insert(line.peer, figure);
            }
            (None, _, Some(rate)) if line.peer == LIMIT => _ = self.limits.insert(key, rate * 1e9),
            (None, Some(seconds), _) if seconds > 0.0 && line.peer != LIMIT => {
                if line.peer == OURS && !self.rows.iter().any(|row| row.key == key) {
                    let (group, flops, bytes) = (line.group, line.flops, line.bytes);
                    self.rows.push(Row { key: key.clone(), group, flops, bytes });
                }
                self.times.entry(key).or_default().insert(line.peer, seconds);
            }
            _ => return Err("neither a time, nor a figure, nor a limit".into()),
        }
        Ok(())
    }

    /// The lines that are used, to be stored.
    pub fn text(&self) -> String {
        self.raw.iter().map(|(_, text)| format!("{text}\n")).collect()
    }
    /// Our time of a row.
    pub fn ours(&self, key: &Key) -> Option<f64> {
        self.times.get(key)?.get(OURS).copied()
    }
    /// Other times of ours, by the rest of their peer names.
    pub fn variants(&self, key: &Key) -> impl Iterator<Item = (&str, f64)> {
        let all = self.times.get(key).into_iter().flatten();
        all.filter_map(|(peer, &t)| Some((peer.strip_prefix(OURS)?.strip_prefix('-')?, t)))
    }
    /// The fastest peer, and its time, of those that have done the same work.
    pub fn best(&self, row: &Row) -> Option<(&str, f64)> {
        fastest(self.others(row).filter(|other| self.otherwise(row, other).is_none()))
    }
    /// The fastest of the peers that have done different work, and the difference. They are
    /// compared with the row of the same work.
    pub fn beside(&self, row: &Row) -> Option<(&'static str, &str, f64)> {
        let (peer, t) = fastest(self.others(row).filter(|other| self.otherwise(row, other).is_some()))?;
        Some((self.otherwise(row, &(peer, t))?, peer, t))
    }
    /// The difference of a peer's work from the row's, if there is one.
    fn otherwise(&self, row: &Row, (peer, t): &(&str, f64)) -> Option<&'static str> {
        if row.key.is_unpacked() && PREPACKS.contains(peer) {
            return Some("with packed weights");
        }
        // Faster than sums in f32 allow: by an instruction that adds two products with roundings of
        // its own.
        self.exact_sums(row).is_some_and(|least| *t < least).then_some("by pairs of bf16")
    }
    /// The least time of exact products of bf16.
    fn exact_sums(&self, row: &Row) -> Option<f64> {
        let exact = row.key.dtype == "bf16" && !row.key.is_fast() && row.flops > 0.0;
        exact.then(|| Some(row.flops / self.peak_of(&row.key)?)).flatten()
    }
    fn others(&self, row: &Row) -> impl Iterator<Item = (&str, f64)> {
        let all = self.times.get(&row.key.of_others()).into_iter().flatten();
        all.filter(|(peer, _)| !is_ours(peer)).map(|(peer, &t)| (peer.as_str(), t))
    }

    fn limit(&self, workload: &str, shape: &str, dtype: &str, threads: usize) -> Option<f64> {
        let key = Key { workload: workload.into(), shape: shape.into(), dtype: dtype.into(), threads };
        self.limits.get(&key).copied()
    }

    /// The machine's peak operations per second for a row: exact products of bf16 are summed in
    /// f32.
    fn peak_of(&self, key: &Key) -> Option<f64> {
        self.peak(if key.dtype == "bf16" && !key.is_fast() { "f32" } else { &key.dtype }, key.threads)
    }

    /// The machine's peak operations per second.
    fn peak(&self, dtype: &str, threads: usize) -> Option<f64> {
        // No current processor has arithmetic of f16 that is wider than that of f32.
        self.limit("peak_fma", "zmm", if dtype == "f16" { "f32" } else { dtype }, threads)
    }

    /// Bytes per second of a level of the memory hierarchy, by the best of these access patterns.
    fn bandwidth(&self, ways: &[&str], level: &str, threads: usize) -> Option<f64> {
        ways.iter().filter_map(|way| self.limit(way, level, "f32", threads)).max_by(f64::total_cmp)
    }

    /// The least seconds that this machine allows for a row: its operations at the peak, or its
    /// bytes at the bandwidth of the caches that hold them, whichever takes longer.
    pub fn least(&self, row: &Row) -> Option<f64> {
        let Row { key, group, flops, bytes } = row;
        let computed = (*flops > 0.0).then(|| Some(flops / self.peak_of(key)?)).flatten();
        let starts = |names: &[&str]| names.iter().any(|name| key.workload.starts_with(name));
        let moves = starts(&["maxpool", "batchnorm"]) || group.starts_with(['a', 'b', 'c']);
        let moved = if *bytes > 0.0 && moves { self.moved(key, *bytes) } else { None };
        // Python's max of nothing: whatever is known.
        computed.into_iter().chain(moved).max_by(f64::total_cmp)
    }

    fn moved(&self, key: &Key, bytes: f64) -> Option<f64> {
        /// The bytes of data that stay in a core's L1, and in its L2.
        const FIRST: f64 = 40e3;
        const SECOND: f64 = 900e3;
        /// The bytes of the shared cache.
        const SHARED: f64 = 32.0 * 1024.0 * 1024.0;
        let reads = ["sum", "max_all", "argmax", "linear"].iter().any(|name| key.workload.starts_with(name));
        let ways: &[&str] =
            if reads { &["bw_read"] } else { &["bw_add", "bw_add_nt", "bw_copy", "bw_copy_nt"] };
        let speed = |level| self.bandwidth(ways, level, key.threads);
        let memory = speed("DRAM_256MiB")?;
        let each = bytes / key.threads as f64;
        Some(if each <= FIRST {
            bytes / speed("L1_16KiB")?
        } else if each <= SECOND {
            bytes / speed("L2_512KiB")?
        } else {
            // Data that fit the shared cache may still be there from the previous call; the rest
            // comes from memory.
            bytes.min(SHARED) / speed("L3_6MiB")? + (bytes - SHARED).max(0.0) / memory
        })
    }
}

/// The fastest peer.
fn fastest<'a>(times: impl Iterator<Item = (&'a str, f64)>) -> Option<(&'a str, f64)> {
    times.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Is it elinvar or a variant of it?
pub fn is_ours(peer: &str) -> bool {
    peer.strip_prefix(OURS).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = r#"
{"peer":"limit","version":"1","workload":"peak_fma","shape":"zmm","dtype":"f32","threads":2,"median_s":1,"gflops":500}
{"peer":"limit","version":"1","workload":"bw_add","shape":"L1_16KiB","dtype":"f32","threads":2,"median_s":1,"gbps":1000}
{"peer":"limit","version":"1","workload":"bw_add","shape":"L2_512KiB","dtype":"f32","threads":2,"median_s":1,"gbps":400}
{"peer":"limit","version":"1","workload":"bw_copy_nt","shape":"L2_512KiB","dtype":"f32","threads":2,"median_s":1,"gbps":500}
{"peer":"limit","version":"1","workload":"bw_add","shape":"L3_6MiB","dtype":"f32","threads":2,"median_s":1,"gbps":200}
{"peer":"limit","version":"1","workload":"bw_add","shape":"DRAM_256MiB","dtype":"f32","threads":2,"median_s":1,"gbps":50}
{"peer":"limit","version":"1","workload":"bw_read","shape":"DRAM_256MiB","dtype":"f32","threads":2,"median_s":1,"gbps":60}
{"peer":"limit","version":"1","workload":"bw_read","shape":"L3_6MiB","dtype":"f32","threads":2,"median_s":1,"gbps":240}
"#;

    fn row(group: &str, workload: &str, dtype: &str, threads: usize, flops: f64, bytes: f64) -> Row {
        let key = Key { workload: workload.into(), shape: "s".into(), dtype: dtype.into(), threads };
        Row { key, group: group.into(), flops, bytes }
    }

    #[test]
    fn the_least_time_is_that_of_operations_or_of_bytes() {
        let mut lines = Lines::default();
        lines.read("limits", LIMITS).unwrap();
        let mib = 1024.0 * 1024.0;
        for (row, want, why) in [
            (row("a. GEMM", "gemm_nn", "f32", 2, 5e11, 1e3), Some(1.0), "operations"),
            (row("a. GEMM", "gemm_nn", "f16", 2, 5e11, 1e3), Some(1.0), "f16 is computed in f32"),
            (row("a. GEMM", "gemm_nn", "f64", 2, 5e11, 0.0), None, "no peak of f64 was measured"),
            (row("a. GEMM", "gemm_nn", "f32", 1, 5e11, 1e3), None, "nor of one thread"),
            (
                row("b. elementwise", "add", "f32", 2, 0.0, 80e3),
                Some(8e-8),
                "first cache, 40 kB for each core",
            ),
            (
                row("b. elementwise", "add", "f32", 2, 0.0, 81e3),
                Some(81e3 / 5e11),
                "second cache, the best way",
            ),
            (row("b. elementwise", "add", "f32", 2, 0.0, 2e6), Some(1e-5), "the shared cache"),
            (
                row("b. elementwise", "add", "f32", 2, 0.0, 132.0 * mib),
                Some(32.0 * mib / 2e11 + 100.0 * mib / 5e10),
                "what does not fit comes from memory",
            ),
            (
                row("c. reductions", "sum_all", "f32", 2, 0.0, 32.0 * mib),
                Some(32.0 * mib / 2.4e11),
                "a sum only reads",
            ),
            (
                row("d. conv", "conv2d_f", "f32", 2, 5e11, 1e12),
                Some(1.0),
                "bytes of a convolution do not count",
            ),
            (row("d. conv", "maxpool_f", "f32", 2, 0.0, 2e6), Some(1e-5), "those of a pool do"),
            (row("h. overhead", "create2", "f32", 2, 0.0, 0.0), None, "nothing is known"),
        ] {
            let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
            let got = lines.least(&row);
            assert!(got.zip(want).map_or(got == want, |(a, b)| close(a, b)), "{why}: {got:?}, not {want:?}");
        }
    }

    #[test]
    fn of_lines_about_the_same_the_last_counts() {
        let mut lines = Lines::default();
        let first = r#"{"peer":"ours","version":"1","group":"b. elementwise","workload":"add","shape":"4","dtype":"f32","threads":2,"median_s":2.0,"flops":0,"bytes":48}"#;
        let text = format!(
            "starting\n{first}\n{}\n{}",
            first.replace("2.0", "1.0"),
            first.replace("ours", "ours-static")
        );
        lines.read("a", &text).unwrap();
        lines.read("b", &first.replace("ours", "jax").replace("2.0", "3.0")).unwrap();
        lines.read("b", &first.replace("ours", "oursonic").replace("2.0", "4.0")).unwrap();
        let key = &lines.rows[0].key;
        assert_eq!((lines.rows.len(), lines.ours(key)), (1, Some(1.0)));
        assert_eq!(lines.variants(key).collect::<Vec<_>>(), [("static", 2.0)]);
        assert_eq!(lines.best(&lines.rows[0]), Some(("jax", 3.0)));
        assert_eq!(lines.text().lines().count(), 4);
        lines
            .read("c", r#"{"peer":"jax","workload":"peak_memory_x","value":1.5,"unit":"MiB","threads":2}"#)
            .unwrap();
        assert_eq!(lines.figures["peak_memory_x"]["jax"], Figure { value: 1.5, unit: "MiB".into() });
    }

    #[test]
    fn who_sums_otherwise_is_named_beside() {
        let mut lines = Lines::default();
        let row = |peer: &str, workload: &str, seconds: f64| {
            format!(
                r#"{{"peer":"{peer}","group":"a. GEMM","workload":"{workload}","shape":"s","dtype":"bf16","threads":2,"median_s":{seconds},"flops":4e9}}"#
            )
        };
        let limit = |dtype: &str, gflops: f64| {
            format!(
                r#"{{"peer":"limit","workload":"peak_fma","shape":"zmm","dtype":"{dtype}","threads":2,"gflops":{gflops}}}"#
            )
        };
        let text = [
            limit("f32", 1.0),
            limit("bf16", 2.0),
            row("ours", "gemm", 5.0),
            row("ours", "gemm_fast", 3.0),
            row("jax", "gemm", 4.5),
            row("torch", "gemm", 2.5),
        ];
        lines.read("a", &text.join("\n")).unwrap();
        let [exact, fast] = &lines.rows[..] else { panic!("two rows") };
        assert_eq!(
            (lines.best(exact), lines.beside(exact)),
            (Some(("jax", 4.5)), Some(("by pairs of bf16", "torch", 2.5)))
        );
        assert_eq!((lines.best(fast), lines.beside(fast)), (Some(("torch", 2.5)), None));
        assert_eq!((lines.least(exact), lines.least(fast)), (Some(4.0), Some(2.0)));
    }

    #[test]
    fn who_packed_before_is_compared_with_packed_weights() {
        let mut lines = Lines::default();
        let row = |peer: &str, workload: &str, seconds: f64| {
            format!(
                r#"{{"peer":"{peer}","group":"a. GEMM","workload":"{workload}","shape":"s","dtype":"f32","threads":2,"median_s":{seconds}}}"#
            )
        };
        let text = [
            row("ours", "linear", 5.0),
            row("ours", "linear_prepacked", 3.0),
            row("onnxruntime", "linear", 2.0),
            row("numpy", "linear", 4.0),
        ];
        lines.read("a", &text.join("\n")).unwrap();
        let [plain, packed] = &lines.rows[..] else { panic!("two rows") };
        assert_eq!(
            (lines.best(plain), lines.beside(plain)),
            (Some(("numpy", 4.0)), Some(("with packed weights", "onnxruntime", 2.0)))
        );
        assert_eq!((lines.best(packed), lines.beside(packed)), (Some(("onnxruntime", 2.0)), None));
    }

    #[test]
    fn a_line_that_is_none_is_told_with_its_number() {
        for (text, want) in [
            ("\n{\"peer\":1}", "f:2: invalid type"),
            ("{", "f:1: EOF"),
            (
                r#"{"peer":"jax","workload":"add","threads":2}"#,
                "f:1: neither a time, nor a figure, nor a limit",
            ),
            (r#"{"peer":"jax","workload":"add","threads":2,"median_s":0}"#, "f:1: neither a time"),
        ] {
            let e = Lines::default().read("f", text).unwrap_err();
            assert!(e.starts_with(want), "{e}");
        }
    }
}
