package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/decide/wiping"
	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/ignition"
	model "github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// InputError reports a configuration that is wrong, or that asks for something
// which this host cannot do. Nothing was changed.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// Request selects what to apply, and how.
type Request struct {
	// Config is the configuration, which may point to others.
	Config []byte
	// FirstBoot applies a configuration once. It applies it again only if the run
	// was cut or the configuration has changed. It implies Start, but does not
	// wait for units.
	FirstBoot bool
	// Start starts enabled units and stops masked ones.
	Start bool
	// DryRun changes nothing.
	DryRun bool
	// SkipPackages does not install missing packages.
	SkipPackages bool
	// Fetch gets the resources to which the configuration points.
	Fetch *Fetcher
	// OnStep is called before each step; may be nil.
	OnStep func(plan.Step)
}

// Result holds the plan, and whether it was carried out.
type Result struct {
	plan.Plan
	// Applied is true if all steps were taken, even if there were none.
	Applied bool `json:"applied"`
	// Before is true if an earlier run finished the first boot.
	Before bool `json:"appliedBefore,omitempty"`
}

// Apply changes the host as a configuration asks. The error is an *InputError if
// nothing was tried. If a run is cut, the next one finishes it.
func (h *Host) Apply(ctx context.Context, req Request) (Result, error) {
	if !req.DryRun {
		unlock, err := h.lock()
		if err != nil {
			return Result{}, err
		}
		defer unlock()
	}
	j, err := h.readJournal()
	if err == nil && !req.DryRun {
		err = h.sweep(j)
	}
	if err != nil {
		return Result{}, err
	}
	source := sourceID(req.Config)
	if req.FirstBoot && j.Source == source && j.InProgress == "" {
		return Result{Plan: plan.Plan{Hash: j.Applied, Steps: []plan.Step{}}, Applied: true, Before: true}, nil
	}
	cfg, err := h.config(ctx, req, j, source)
	if err != nil {
		return Result{}, err
	}
	p, err := h.plan(ctx, req, cfg)
	if err != nil || req.DryRun {
		return Result{Plan: p}, err
	}
	if req.FirstBoot {
		j.Source = source
	}
	return h.follow(ctx, req, cfg, p, j)
}

func sourceID(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// config returns the whole configuration: the one saved by a first boot that
// was cut, or the one in the request, fetched and merged.
func (h *Host) config(ctx context.Context, req Request, j plan.Journal, source string) (types.Config, error) {
	if req.FirstBoot && j.Source == source && j.InProgress != "" {
		if cfg, ok := h.savedConfig(j); ok {
			return cfg, nil
		}
	}
	cfg, err := ignition.Parse(req.Config)
	if err != nil {
		return types.Config{}, &InputError{Err: err}
	}
	return req.Fetch.Resolve(ctx, cfg)
}

func (h *Host) plan(ctx context.Context, req Request, cfg types.Config) (plan.Plan, error) {
	d, err := plan.FromConfig(cfg)
	if err != nil {
		return plan.Plan{}, &InputError{Err: err}
	}
	if err := h.goesOn(d); err != nil {
		return plan.Plan{}, &InputError{Err: err}
	}
	o, err := h.Observe(ctx, d)
	if err != nil {
		return plan.Plan{}, err
	}
	p, err := plan.Make(d, o, plan.Options{Start: req.Start || req.FirstBoot, SkipPackages: req.SkipPackages})
	if err != nil {
		return plan.Plan{}, &InputError{Err: err}
	}
	return p, nil
}

// goesOn returns an error if the installation of this host began with the site.json of another site,
// life or role than that of a configuration. One that cannot be read is no hindrance: its reader
// says so. It returns one, too, if a wipe did not end: a host that lives on with its permission would
// be deleted without a question, months later.
func (h *Host) goesOn(d plan.Desired) error {
	i := slices.IndexFunc(d.Files, func(f plan.File) bool { return f.Path == model.Path })
	begun, installed := h.has(state.InstallBegunPath), h.has(state.InstalledPath)
	switch {
	case i < 0:
		return nil
	case !h.has(model.Path) && h.has(wiping.JournalPath):
		return errors.New("a wipe of this host did not end, so parts of its former site are left: run holdfast-agent wipe again, then apply it again")
	case h.mayBeWiped(d.Files[i].Contents):
		return errors.New("a wipe of this host has begun and did not end, and may go on at any time without a question: run holdfast-agent wipe again, then apply it again. " +
			"To keep the host instead: rm " + wiping.JournalPath + ", then apply it again; what the wipe has deleted already stays so")
	case !begun && !installed:
		return nil
	}
	path, err := h.at(model.Path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	have, err := model.Unmarshal(text)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	want, err := model.Unmarshal(d.Files[i].Contents)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return installation.Mixed(have, want, installed)
}

// mayBeWiped reports whether a wipe that was allowed and did not end would go on on a host with a
// site.json. A permission that cannot be read allows nothing.
func (h *Host) mayBeWiped(text []byte) bool {
	path, err := h.at(wiping.JournalPath)
	if err != nil {
		return false
	}
	journal, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var allowed wiping.Life
	if json.Unmarshal(journal, &allowed) != nil {
		return false
	}
	s, err := model.Unmarshal(text)
	return err == nil && wiping.Continues(allowed, &wiping.Life{Cluster: s.Identity.ClusterID, Life: s.Life.ID})
}

// has reports whether a path exists on the host.
func (h *Host) has(path string) bool {
	at, err := h.at(path)
	return err == nil && host.Exists(at)
}

// follow takes the steps of a plan. It writes the journal before and after
// them.
func (h *Host) follow(ctx context.Context, req Request, cfg types.Config, p plan.Plan, j plan.Journal) (Result, error) {
	done := j
	done.InProgress, done.Applied = "", p.Hash
	if req.Start || req.FirstBoot {
		done.Started = p.Hash
	}
	if len(p.Steps) == 0 && done == j {
		return Result{Plan: p, Applied: true}, nil
	}
	if len(p.Steps) > 0 {
		if err := h.begin(cfg, p, j); err != nil {
			return Result{Plan: p}, err
		}
	}
	for i, s := range p.Steps {
		if req.OnStep != nil {
			req.OnStep(s)
		}
		if err := h.take(ctx, s.Action, executeOptions{noBlock: req.FirstBoot}); err != nil {
			return Result{Plan: p}, fmt.Errorf("step %d of %d, %s: %w", i+1, len(p.Steps), s.ID, err)
		}
	}
	if err := h.writeJournal(done); err != nil {
		return Result{Plan: p}, err
	}
	return Result{Plan: p, Applied: true}, h.onPath(configFile, h.Remove)
}

// begin records that a run has started. It saves the configuration first,
// because the entry in the journal promises that it exists.
func (h *Host) begin(cfg types.Config, p plan.Plan, j plan.Journal) error {
	if err := h.saveConfig(cfg); err != nil {
		return fmt.Errorf("save the configuration: %w", err)
	}
	j.InProgress = p.Hash
	return h.writeJournal(j)
}
