//! WGSL: branches and loops.

use super::Printer;
use crate::ir::{Region, Value};
use crate::pass::Unsupported;

impl Printer<'_> {
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
        let names: Vec<String> = results.iter().map(|v| format!("v{}", v.0)).collect();
        for (&v, name) in results.iter().zip(&names) {
            let ty = self.ty(v);
            self.line(&format!("var {name}: {ty};"));
            self.call(v, name.clone());
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
            for (name, &v) in names.iter().zip(&r.yields) {
                let from = self.name(v).to_string();
                self.assign(name, &from);
            }
        }
        self.line("}");
        Ok(())
    }

    /// What is carried are variables, which are the results afterwards.
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
            let (ty, first) = (self.ty(v), self.name(init[i]).to_string());
            self.line(&format!("var {name}: {ty} = {first};"));
            self.call(v, name.clone());
            self.call(body.args[i + 1], name.clone());
            carried.push(name);
        }
        let [start, end, step] = [start, end, step].map(|v| self.name(v).to_string());
        self.line(&format!("for (var {index} = {start}; {index} < {end}; {index} += {step}) {{"));
        self.block(body)?;
        let nexts: Vec<String> = body.yields.iter().map(|&v| self.name(v).to_string()).collect();
        let moves: Vec<(&String, &String)> =
            carried.iter().zip(&nexts).filter(|(to, from)| to != from).collect();
        // All at once: what is assigned to may be what another one gets.
        let crossed = moves.iter().any(|(_, from)| carried.contains(from));
        if crossed {
            for (to, from) in &moves {
                self.assign(&format!("let next_{to}"), from);
            }
        }
        for (to, from) in &moves {
            let from = if crossed { format!("next_{to}") } else { from.to_string() };
            self.assign(to, &from);
        }
        self.line("}");
        Ok(())
    }
}
