//! `elinvar-lab ulp`

use crate::args::{ALL, Ulp};
use elinvar::Result;
use elinvar_cli_support::{Bar, Verdict};
use elinvar_ulp::{Function, Worst, functions, sweep};
use std::io::Write;
use std::num::NonZero;

/// Sweeps the functions one after the other and prints a row of the table for each.
pub fn run(args: &Ulp, out: &mut dyn Write) -> Result<Verdict> {
    let threads = match args.threads {
        Some(n) => n as usize,
        None => std::thread::available_parallelism().map_or(1, NonZero::get),
    };
    let asked = functions().iter().filter(|f| args.function == ALL || args.function == f.name);
    writeln!(
        out,
        "| function | bound, ULP | worst, ULP | at | result | truth | not nearest | wrong specials |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    let mut verdict = Verdict::Good;
    for f in asked {
        let bar = Bar::new(1 << 32, true);
        bar.label(f.name.to_string());
        let worst = sweep(f, threads, &|done| bar.at(done));
        drop(bar);
        writeln!(out, "{}", row(f, &worst))?;
        out.flush()?;
        if worst.ulp > f.bound || worst.wrong_special > 0 {
            verdict = Verdict::Bad;
        }
    }
    Ok(verdict)
}

fn row(f: &Function, w: &Worst) -> String {
    let specials = match w.first_wrong_special {
        None => "none".to_string(),
        Some(bits) => format!("{}, first at {:?}", w.wrong_special, f32::from_bits(bits)),
    };
    let not_nearest = 100.0 * w.not_nearest as f64 / w.inputs as f64;
    format!(
        "| {} | {} | {:.4} | {:?} | {:?} | {:?} | {not_nearest:.2} % | {specials} |",
        f.name, f.bound, w.ulp, w.input, w.got, w.want
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let f = &functions()[0];
        let worst = Worst {
            ulp: 0.51239,
            input: 1.5,
            got: 4.5,
            want: 4.5000001,
            inputs: 200,
            not_nearest: 3,
            wrong_special: 2,
            first_wrong_special: Some(0x8000_0000),
        };
        let bound = f.bound;
        assert_eq!(
            row(f, &worst),
            format!("| {} | {bound} | 0.5124 | 1.5 | 4.5 | 4.5000001 | 1.50 % | 2, first at -0.0 |", f.name)
        );
        assert!(row(f, &Worst { first_wrong_special: None, ..worst }).ends_with("| none |"));
    }
}
