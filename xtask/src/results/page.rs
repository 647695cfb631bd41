//! The page, in Markdown.

use super::Score;
use super::lines::{Figure, Lines, OURS, Row, is_ours};
use super::target::target;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The prefix of workloads about memory; other figures are about the program's size.
const MEMORY: &str = "peak_memory_";

/// The metadata of the page.
pub struct Head {
    pub title: String,
    pub machine: String,
    pub date: String,
    /// The file of raw lines next to the page.
    pub raw: String,
    /// A paragraph that links to the analysis of the rows, or empty.
    pub log: String,
}

/// A row with its ratios.
struct Judged<'a> {
    row: &'a Row,
    ours: f64,
    least: Option<f64>,
    best: Option<(&'a str, f64)>,
    /// The speed-up over the best peer.
    ratio: Option<f64>,
    met: Option<bool>,
    /// Is it a fifth faster than the best peer, or within a tenth of the limit?
    ahead: bool,
}

impl<'a> Judged<'a> {
    fn new(lines: &'a Lines, row: &'a Row) -> Option<Self> {
        let (ours, least, best) = (lines.ours(&row.key)?, lines.least(row), lines.best(row));
        let ratio = best.map(|(_, t)| t / ours);
        let met = target(row).met(ratio, least.map(|least| least / ours));
        let ahead = ratio.is_some_and(|r| r >= 1.2) || least.is_some_and(|least| ours <= 1.1 * least);
        Some(Judged { row, ours, least, best, ratio, met, ahead })
    }
}

/// The whole page, and the number of its rows that are ahead.
///
/// # Errors
/// A sentence if no line is ours.
pub fn page(lines: &Lines, head: &Head) -> Result<(String, Vec<Score>), String> {
    let rows: Vec<Judged<'_>> = lines.rows.iter().filter_map(|row| Judged::new(lines, row)).collect();
    if rows.is_empty() {
        return Err(format!("no line has the peer \"{OURS}\": `elinvar-lab bench` prints such lines"));
    }
    let mut page = intro(lines, head);
    let sections = sections(&rows);
    page += &counts(&sections);
    for ((group, threads), rows) in &sections {
        let threads = if *threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        _ = writeln!(page, "\n## {group}, {threads}\n");
        page += &table(lines, rows);
    }
    let (memory, size): (Vec<_>, Vec<_>) =
        lines.figures.iter().partition(|(workload, _)| workload.starts_with(MEMORY));
    page += &figures(
        "Memory",
        "The most that a process held, less what it held before: a few steps of training.",
        &memory,
    );
    page += &figures(
        "Footprint",
        "A program that multiplies two small matrices: *ours* chooses its device at run time, so all of them are in it; *ours-static* \
         names the CPU, as the others do.",
        &size,
    );
    let ratios: Vec<f64> = rows.iter().filter_map(|r| r.ratio).collect();
    Ok((page, vec![score(String::new(), &ratios)]))
}

/// Of the ratios of a table.
pub(super) fn score(title: String, ratios: &[f64]) -> Score {
    let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
    Score { title, rows: ratios.len(), ahead: ratios.iter().filter(|r| **r >= 1.0).count(), mean }
}

fn intro(lines: &Lines, Head { title, machine, date, raw, log }: &Head) -> String {
    let versions: Vec<String> = lines.versions.iter().map(|(peer, v)| format!("{peer} {v}")).collect();
    format!(
        "# {title}\n\n\
         Machine: {machine}. Date: {date}. Raw lines: [{raw}]({raw}). [How it is measured](../docs/performance/method.md).\n\n\
         Versions: {}.\n\n{log}\
         | column | meaning |\n|---|---|\n\
         | ours | median of 5 to 60 samples after a warm-up; the op allocates its result |\n\
         | limit | the least time that the machine allows: operations at its peak of fused multiply-adds, or bytes at the bandwidth of the caches that hold them, both measured |\n\
         | best peer | the fastest other library that computes the same; one that sums pairs of bf16, or packs weights before any time is taken, is named behind it and compared with our row *_fast* or *_prepacked* |\n\
         | peer / ours | above 1 ours is faster; bold from 1 on |\n\
         | ours / limit | how many times the least time ours takes |\n",
        versions.join(", ")
    )
}

/// Rows by group and number of threads, most threads first; groups in the order of their letters.
fn sections<'a>(rows: &'a [Judged<'a>]) -> Vec<((&'a str, usize), Vec<&'a Judged<'a>>)> {
    let mut by: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for judged in rows {
        let key = &judged.row.key;
        by.entry((judged.row.group.as_str(), std::cmp::Reverse(key.threads))).or_default().push(judged);
    }
    by.into_iter().map(|((group, threads), rows)| ((group, threads.0), rows)).collect()
}

fn counts(sections: &[((&str, usize), Vec<&Judged<'_>>)]) -> String {
    let mut text = "\n## Rows won and lost\n\n".to_string();
    text += "| group | threads | rows | won | lost | without peer | targets met | targets missed | 1.2, or a tenth from the limit | geometric mean of peer / ours | worst row |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|---|\n";
    let all: Vec<&Judged<'_>> = sections.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
    for ((group, threads), rows) in sections {
        text += &count(group, &threads.to_string(), rows);
    }
    text + &count("**all**", "", &all)
}

fn count(group: &str, threads: &str, rows: &[&Judged<'_>]) -> String {
    let ratios: Vec<(f64, &Row)> = rows.iter().filter_map(|r| Some((r.ratio?, r.row))).collect();
    let won = ratios.iter().filter(|(ratio, _)| *ratio >= 1.0).count();
    let met = |want| rows.iter().filter(|r| r.met == Some(want)).count();
    let mean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let mean = if ratios.is_empty() { String::new() } else { format!("{mean:.2}") };
    let worst = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let worst =
        worst.map_or_else(String::new, |(r, row)| format!("{} {}: {r:.2}", row.key.workload, row.key.shape));
    format!(
        "| {group} | {threads} | {} | {won} | {} | {} | {} | {} | {} of {} | {mean} | {worst} |\n",
        rows.len(),
        ratios.len() - won,
        rows.len() - ratios.len(),
        met(true),
        met(false),
        rows.iter().filter(|r| r.ahead).count(),
        rows.len(),
    )
}

fn table(lines: &Lines, rows: &[&Judged<'_>]) -> String {
    let variants: BTreeSet<&str> =
        rows.iter().flat_map(|r| lines.variants(&r.row.key)).map(|(name, _)| name).collect();
    let mut text = "| workload | shape | type | limit | ours | best peer | its time | peer / ours | target | met | ours / limit |".to_string();
    for name in &variants {
        _ = write!(text, " variant {name} |");
    }
    _ = writeln!(text, "\n{}|", "|---".repeat(11 + variants.len()));
    for judged in rows {
        text += &line(lines, judged, &variants);
    }
    text
}

fn line(lines: &Lines, judged: &Judged<'_>, variants: &BTreeSet<&str>) -> String {
    let Judged { row, ours, least, best, ratio, met, .. } = judged;
    let (key, goal) = (&row.key, target(row));
    let or_nothing = |t: Option<f64>| t.map_or_else(String::new, time);
    // Nothing is left out: peers that have done different work are listed in a further column.
    let beside = lines
        .beside(row)
        .map_or_else(String::new, |(how, peer, t)| format!("; {how}, {peer}: {}, {:.2}", time(t), t / ours));
    let mut cells = vec![
        key.workload.clone(),
        key.shape.clone(),
        key.dtype.clone(),
        or_nothing(*least),
        time(*ours),
        best.map_or_else(String::new, |(peer, _)| peer.to_string()) + &beside,
        or_nothing(best.map(|(_, t)| t)),
        ratio.map_or_else(String::new, |r| if r >= 1.0 { format!("**{r:.2}**") } else { format!("{r:.2}") }),
        format!(
            "{:.1}{}",
            goal.ratio,
            goal.peak.map_or_else(String::new, |p| format!(", {:.0} % of peak", 100.0 * p))
        ),
        met.map_or("", |met| if met { "yes" } else { "no" }).to_string(),
        least.map_or_else(String::new, |least| format!("{:.2}", ours / least)),
    ];
    let times: BTreeMap<&str, f64> = lines.variants(key).collect();
    cells.extend(variants.iter().map(|name| or_nothing(times.get(name).copied())));
    format!("| {} |\n", cells.join(" | "))
}

/// A table of figures by workload, ours first.
fn figures(title: &str, what: &str, all: &[(&String, &BTreeMap<String, Figure>)]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text =
        format!("\n## {title}\n\n{what}\n\n| figure | unit | ours | others |\n|---|---|---|---|\n");
    for (workload, by) in all {
        let unit = by.values().next().map_or("", |f| &f.unit);
        let ours = by.get(OURS).map_or_else(String::new, |f| number(f.value));
        let others = by.iter().filter(|(peer, _)| *peer != OURS).map(|(peer, f)| {
            let note = if is_ours(peer) { " (variant)" } else { "" };
            format!("{peer} {}{note}", number(f.value))
        });
        _ = writeln!(text, "| {workload} | {unit} | {ours} | {} |", others.collect::<Vec<_>>().join(", "));
    }
    text
}

fn number(value: f64) -> String {
    ((value * 100.0).round() / 100.0).to_string()
}

/// Seconds with three digits and a unit.
pub(super) fn time(t: f64) -> String {
    let (x, unit) = match t {
        1.0.. => (t, "s"),
        1e-3.. => (t * 1e3, "ms"),
        1e-6.. => (t * 1e6, "µs"),
        _ => (t * 1e9, "ns"),
    };
    match x {
        100.0.. => format!("{x:.0} {unit}"),
        10.0.. => format!("{x:.1} {unit}"),
        _ => format!("{x:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
{"peer":"limit","version":"1","workload":"peak_fma","shape":"zmm","dtype":"f32","threads":2,"median_s":1,"gflops":500}
{"peer":"ours","version":"0.1","group":"a. GEMM","workload":"gemm_nn","shape":"1024x1024x1024","dtype":"f32","threads":2,"median_s":0.00452,"flops":2147483648,"bytes":12582912}
{"peer":"jax","version":"3","workload":"gemm_nn","shape":"1024x1024x1024","dtype":"f32","threads":2,"median_s":0.0049}
{"peer":"torch","version":"2","workload":"gemm_nn","shape":"1024x1024x1024","dtype":"f32","threads":2,"median_s":0.01}
{"peer":"ours","version":"0.1","group":"a. GEMM","workload":"gemm_nn","shape":"64x64x64","dtype":"f32","threads":1,"median_s":5e-6,"flops":524288,"bytes":49152}
{"peer":"ours","version":"0.1","group":"h. overhead","workload":"tiny_add","shape":"4","dtype":"f32","threads":2,"median_s":2e-7,"flops":0,"bytes":0}
{"peer":"ours-static","version":"0.1","group":"h. overhead","workload":"tiny_add","shape":"4","dtype":"f32","threads":2,"median_s":1.5e-7,"flops":0,"bytes":0}
{"peer":"burn","version":"1","workload":"tiny_add","shape":"4","dtype":"f32","threads":2,"median_s":1e-7}
{"peer":"ours","version":"0.1","workload":"peak_memory_train_mlp","value":20.25,"unit":"MiB","threads":2}
{"peer":"torch","version":"2","workload":"peak_memory_train_mlp","value":40,"unit":"MiB","threads":2}
{"peer":"candle","version":"1","workload":"dependencies_hello","value":127,"unit":"crates","threads":2}
"#;

    fn sample() -> String {
        let mut lines = Lines::default();
        lines.read("sample", SAMPLE).unwrap();
        let head = Head {
            title: "T".into(),
            machine: "M".into(),
            date: "2026-01-02".into(),
            raw: "m-2026-01-02.jsonl".into(),
            log: "The bus.\n\n".into(),
        };
        let (page, scores) = page(&lines, &head).unwrap();
        let [Score { title, rows: 2, ahead: 1, mean }] = &scores[..] else { panic!("one score") };
        assert!(title.is_empty() && (mean - 0.736).abs() < 1e-3, "{mean}");
        page
    }

    #[test]
    fn the_page_of_a_small_sample() {
        let page = sample();
        for line in [
            "# T",
            "Machine: M. Date: 2026-01-02. Raw lines: [m-2026-01-02.jsonl](m-2026-01-02.jsonl). [How it is measured](../docs/performance/method.md).",
            "Versions: burn 1, candle 1, jax 3, ours 0.1, ours-static 0.1, torch 2.",
            "| a. GEMM | 2 | 1 | 1 | 0 | 0 | 1 | 0 | 1 of 1 | 1.08 | gemm_nn 1024x1024x1024: 1.08 |",
            "| a. GEMM | 1 | 1 | 0 | 0 | 1 | 0 | 0 | 0 of 1 |  |  |",
            "| **all** |  | 3 | 1 | 1 | 1 | 1 | 1 | 1 of 3 | 0.74 | tiny_add 4: 0.50 |",
            "The bus.",
            "## a. GEMM, 2 threads",
            "| gemm_nn | 1024x1024x1024 | f32 | 4.29 ms | 4.52 ms | jax | 4.90 ms | **1.08** | 1.0, 95 % of peak | yes | 1.05 |",
            "## a. GEMM, 1 thread",
            "| gemm_nn | 64x64x64 | f32 |  | 5.00 µs |  |  |  | 1.0 |  |  |",
            "| tiny_add | 4 | f32 |  | 200 ns | burn | 100 ns | 0.50 | 1.0 | no |  | 150 ns |",
            "| peak_memory_train_mlp | MiB | 20.25 | torch 40 |",
            "| dependencies_hello | crates |  | candle 127 |",
        ] {
            assert!(page.lines().any(|l| l == line), "no line {line}\nin\n{page}");
        }
    }

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_head() {
        let mut cells = 0;
        for line in sample().lines() {
            let here = line.matches('|').count();
            assert!(cells == 0 || here == 0 || here == cells, "{line}");
            cells = here;
        }
    }

    #[test]
    fn without_our_lines_there_is_no_page() {
        let none = String::new;
        let head = Head { title: none(), machine: none(), date: none(), raw: none(), log: none() };
        assert!(page(&Lines::default(), &head).err().unwrap().contains("elinvar-lab bench"));
    }

    #[test]
    fn times_have_three_digits() {
        for (t, want) in
            [(1.5, "1.50 s"), (0.0123, "12.3 ms"), (1e-6, "1.00 µs"), (4.56e-7, "456 ns"), (3e-10, "0.30 ns")]
        {
            assert_eq!(time(t), want);
        }
    }
}
