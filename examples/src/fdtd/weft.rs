//! The boundary by a plan of Weft: fields that ranks exchange lie in Weft's memory, and what goes
//! where is agreed on once.

use weft::context::{Context, ContextOptions};
use weft::endpoint::Endpoint;
use weft::halo::{self, Array, Axis, Corners, Draft, Layout, Neighbours, Plan};
use weft::wireup::Job;

use super::slab::{Planes, PlanesMut, Slab};
use super::transport::{Done, Side, Stage, Transport, Work};

/// The tag of what ranks tell each other beside the boundary.
const TELL: u64 = 1;

/// Fields in Weft's memory, and their plan.
pub struct Weft<'e> {
    endpoint: &'e Endpoint,
    plan: Plan<'e>,
    plane: usize,
    /// By stage: y and z.
    fields: [[Array<f64>; 2]; 2],
    stages: [halo::Stage; 2],
    /// By stage, whether it is being exchanged.
    under_way: [bool; 2],
}

impl<'e> Weft<'e> {
    /// Opens the endpoint, makes the fields, of zeros, and agrees with the neighbours on the plan;
    /// gives that to `run`.
    ///
    /// # Errors
    /// When the endpoint cannot be opened or neighbours do not agree, and those of `run`.
    pub fn with<R>(
        job: &mut Job,
        slab: Slab,
        run: impl FnOnce(&mut dyn Transport) -> Done<R>,
    ) -> Done<R> {
        let endpoint = Endpoint::new(Context::open(job, &ContextOptions::from_env()?)?)?;
        run(&mut Weft::new(&endpoint, slab)?)
    }

    fn new(endpoint: &'e Endpoint, slab: Slab) -> Done<Weft<'e>> {
        let (rank, ranks) = (endpoint.rank(), endpoint.size());
        let chain = Neighbours::grid(rank, &[ranks, 1, 1], &[false; 3])?;
        let mut draft = Draft::new(endpoint, chain);
        draft.corners(Corners::No);
        let layout = |stage: Stage| {
            let (below, above) = stage.ghosts();
            let row = Axis::new(slab.row(), 0);
            Layout::new::<f64>(&[Axis::sided(slab.planes, below, above), row, row])
        };
        let (e, h) = (layout(Stage::Electric), layout(Stage::Magnetic));
        let electric = [draft.array(&e)?, draft.array(&e)?];
        let magnetic = [draft.array(&h)?, draft.array(&h)?];
        let fields = [electric, magnetic];
        let stages = fields.each_ref().map(|of| draft.stage(&of.each_ref().map(Array::id)));
        let (plan, plane) = (draft.build()?, slab.plane());
        Ok(Weft { endpoint, plan, plane, fields, stages, under_way: [false; 2] })
    }

    fn rank(&self, side: Side) -> u32 {
        match side {
            Side::Low => self.endpoint.rank() - 1,
            Side::High => self.endpoint.rank() + 1,
        }
    }
}

impl Transport for Weft<'_> {
    fn start(&mut self, stage: Stage) -> Done {
        self.plan.start(self.stages[stage.index()])?;
        self.under_way[stage.index()] = true;
        Ok(())
    }

    fn wait(&mut self, stage: Stage) -> Done {
        self.plan.wait(self.stages[stage.index()])?;
        self.under_way[stage.index()] = false;
        Ok(())
    }

    fn lend(&mut self, stage: Stage, work: &mut Work<'_>) -> Done {
        let other = if stage == Stage::Electric { Stage::Magnetic } else { Stage::Electric };
        let (own, at) = (stage.ghosts().0, other.index());
        let [electric, magnetic] = &mut self.fields;
        let (written, read) = match stage {
            Stage::Electric => (electric, magnetic),
            Stage::Magnetic => (magnetic, electric),
        };
        let [y, z] = written;
        let (mut y, mut z) = (y.write()?, z.write()?);
        let mut written = [&mut y[..], &mut z[..]].map(|f| PlanesMut::new(f, own, self.plane));
        // While cells arrive in the ghost layer the others can be read.
        let [y, z] = read;
        if self.under_way[at] {
            let (y, z) = (y.middle()?.1, z.middle()?.1);
            work(&mut written, [&y[..], &z[..]].map(|f| Planes::new(f, 0, self.plane)));
        } else {
            let (y, z) = (y.read()?, z.read()?);
            let below = other.ghosts().0;
            work(&mut written, [&y[..], &z[..]].map(|f| Planes::new(f, below, self.plane)));
        }
        Ok(())
    }

    fn send(&mut self, to: Side, bytes: &[u8]) -> Done {
        Ok(self.endpoint.send(self.rank(to), TELL, bytes)?)
    }

    fn recv(&mut self, from: Side) -> Done<Vec<u8>> {
        let from = self.rank(from);
        let mut bytes = vec![0; self.endpoint.probe(from, TELL)?.len];
        self.endpoint.recv(from, TELL, &mut bytes)?;
        Ok(bytes)
    }
}
