//! The exchange by a plan of Weft, `weft::halo`.

use weft::endpoint::Endpoint;
use weft::halo::{Array, Axis, Corners, Draft, Layout, Neighbours, Plan, Stage};

use super::super::failed;
use super::{Exchange, Slab};
use crate::CliError;

/// Fields in Weft's memory, and their plan.
pub struct Planned<'e> {
    plan: Plan<'e>,
    /// By stage and field.
    fields: Vec<Vec<Array<f64>>>,
    stages: Vec<Stage>,
}

impl<'e> Planned<'e> {
    /// Makes the fields, of zeros, and agrees with the neighbours.
    ///
    /// # Errors
    /// When there is no memory, or a neighbour is gone.
    pub fn new(endpoint: &'e Endpoint, slab: Slab) -> Result<Planned<'e>, CliError> {
        let mut processes = [1; 3];
        processes[slab.shape.axis] = slab.ranks;
        let chain = Neighbours::grid(slab.rank, &processes, &[false; 3]).map_err(failed)?;
        let mut draft = Draft::new(endpoint, chain);
        draft.corners(Corners::No);
        let (mut fields, mut stages) = (Vec::new(), Vec::new());
        for stage in 0..slab.shape.stages {
            let mut axes = slab.own.map(|cells| Axis::new(cells, 0));
            let (below, above) = slab.ghosts(stage);
            axes[slab.shape.axis] = Axis::sided(slab.own[slab.shape.axis], below, above);
            let layout = Layout::new::<f64>(&axes);
            let of_stage = (0..slab.shape.fields).map(|_| draft.array(&layout).map_err(failed));
            let of_stage: Vec<Array<f64>> = of_stage.collect::<Result<_, _>>()?;
            let names: Vec<_> = of_stage.iter().map(Array::id).collect();
            stages.push(draft.stage(&names));
            fields.push(of_stage);
        }
        Ok(Planned { plan: draft.build().map_err(failed)?, fields, stages })
    }
}

impl Exchange for Planned<'_> {
    fn lend(
        &mut self,
        stage: usize,
        field: usize,
        work: &mut dyn FnMut(&mut [f64]),
    ) -> Result<(), CliError> {
        work(&mut self.fields[stage][field].write().map_err(failed)?);
        Ok(())
    }

    fn start(&mut self, stage: usize) -> Result<(), CliError> {
        self.plan.start(self.stages[stage]).map_err(failed)
    }

    fn wait(&mut self, stage: usize) -> Result<(), CliError> {
        self.plan.wait(self.stages[stage]).map_err(failed)
    }
}
