//! Processors that a rank wanted and others had.

use super::{Finding, cost, finding};
use crate::sums::Sums;
use crate::units::{percent, share};

/// Per node: its ranks could have run, and did not.
pub fn robbed(sums: &Sums) -> Vec<Finding> {
    let nodes = 0..sums.run.nodes.len() as u32;
    nodes.flat_map(|node| robbed_on(sums, node)).collect()
}

fn robbed_on(sums: &Sums, node: u32) -> Vec<Finding> {
    let robbed: f64 = sums.ranks_of(node).map(|rank| rank.robbed_ns as f64).sum();
    let life: f64 = sums.ranks_of(node).map(|rank| rank.lasted_ns as f64).sum();
    let (ranks, name) = (sums.ranks_of(node).count(), sums.node(node));
    let processors = sums.run.nodes.get(node as usize).map_or(0, |node| node.processors);
    let part = percent(share(robbed, life).min(1.0));
    let cost = cost(sums, robbed);
    if processors > 0 && ranks > processors as usize {
        let what = || {
            format!(
                "{name} has {ranks} ranks on {processors} processors: they wait {part} of their \
                 time for one."
            )
        };
        let cure = "Start no more ranks on a node than it has processors, or spread them over \
                    more nodes.";
        return finding(cost, what, cure);
    }
    let what = || {
        format!(
            "Ranks on {name} wait {part} of their time for a processor, though there are no more \
             ranks than processors: others have them."
        )
    };
    let cure = "`top` there shows who. If they are threads of the program itself, set \
                OMP_NUM_THREADS so that ranks times threads are no more than the processors; leave \
                a processor free for what must run beside it.";
    finding(cost, what, cure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even};

    #[test]
    fn too_many_ranks_and_others_processes_are_told_apart() {
        let mut run = even(4, 2);
        run.ranks[2].robbed_ns = 2 * S;
        let found = robbed(&Sums::new(&run)).remove(0);
        // 2 s of 40 s; on its node 2 of 20.
        assert!(found.what.contains("on node1 wait 10 %"), "{}", found.what);
        assert!((found.cost.unwrap().share - 0.05).abs() < 1e-9, "{found:?}");
        assert!(found.cure.contains("`top` there"), "{}", found.cure);
        run.nodes[1].processors = 1;
        let found = robbed(&Sums::new(&run)).remove(0);
        assert!(found.what.contains("2 ranks on 1 processors"), "{}", found.what);
        run.ranks[2].robbed_ns = S;
        assert_eq!(robbed(&Sums::new(&run)), [], "a fortieth is not worth telling");
    }
}
