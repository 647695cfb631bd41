//! MSL: branches and loops.

use super::MslPrinter;
use crate::ir::{Region, Value};
use crate::pass::Unsupported;

impl MslPrinter<'_> {
    /// A block of statements.
    fn block(&mut self, r: &Region) -> Result<(), Unsupported> {
        self.depth += 1;
        let done = self.region(r);
        self.depth -= 1;
        done
    }
    fn assign(&mut self, to: &str, from: &str) {
        self.depth += 1;
        self.line(&format!("{to} = {from};"));
        self.depth -= 1;
    }

    pub(super) fn branch(
        &mut self,
        c: Value,
        regions: [&Region; 2],
        results: &[Value],
    ) -> Result<(), Unsupported> {
        for &v in results {
            self.call(v, format!("v{}", v.0));
            for name in self.parts(v) {
                let ty = self.ty(v);
                self.line(&format!("{ty} {name};"));
            }
        }
        let c = self.name(c).to_string();
        self.line(&format!("if ({c}) {{"));
        for (i, r) in regions.into_iter().enumerate() {
            if i == 1 {
                if r.insts.is_empty() && results.is_empty() {
                    break;
                }
                self.line("} else {");
            }
            self.block(r)?;
            for (&to, &from) in results.iter().zip(&r.yields) {
                for (to, from) in self.parts(to).iter().zip(self.parts(from)) {
                    self.assign(to, &from);
                }
            }
        }
        self.line("}");
        Ok(())
    }

    /// What is carried are variables, which are the results afterwards. That loops end is known of
    /// every kernel, as C++ assumes of its own.
    pub(super) fn repeat(
        &mut self,
        [start, end, step]: [Value; 3],
        init: &[Value],
        body: &Region,
        results: &[Value],
    ) -> Result<(), Unsupported> {
        let index = format!("v{}", body.args[0].0);
        self.call(body.args[0], index.clone());
        let mut carried = Vec::new();
        for (i, &v) in results.iter().enumerate() {
            let name = format!("v{}", v.0);
            self.call(v, name.clone());
            self.call(body.args[i + 1], name);
            for (part, first) in self.parts(v).into_iter().zip(self.parts(init[i])) {
                let ty = self.ty(v);
                self.line(&format!("{ty} {part} = {first};"));
                carried.push((part, ty));
            }
        }
        let ty = self.ty(body.args[0]);
        let [start, end, step] = [start, end, step].map(|v| self.name(v).to_string());
        self.line(&format!("for ({ty} {index} = {start}; {index} < {end}; {index} += {step}) {{"));
        self.block(body)?;
        let nexts: Vec<String> = body.yields.iter().flat_map(|&v| self.parts(v)).collect();
        let moves: Vec<(&(String, String), &String)> =
            carried.iter().zip(&nexts).filter(|((to, _), from)| to != *from).collect();
        // All at once: what is assigned to may be what another one gets.
        let crossed = moves.iter().any(|(_, from)| carried.iter().any(|(name, _)| name == *from));
        if crossed {
            for ((to, ty), from) in &moves {
                self.assign(&format!("const {ty} next_{to}"), from);
            }
        }
        for ((to, _), from) in &moves {
            let from = if crossed { format!("next_{to}") } else { from.to_string() };
            self.assign(to, &from);
        }
        self.line("}");
        Ok(())
    }
}
