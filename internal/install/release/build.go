package release

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// Options selects what to build, and where.
type Options struct {
	// Root is the repository.
	Root string
	// Output is the folder of the release; empty means _output/release below
	// Root.
	Output string
	// Cache is the folder for the results of steps; empty means CacheDir.
	Cache string
	// Only names the images to build; empty means all.
	Only []string
	// Jobs is the number of steps that run in parallel; zero means two.
	Jobs int
	// Refresh reads the distribution's package lists again. Otherwise the build
	// uses the packages that an earlier build resolved.
	Refresh bool
	// Progress receives a line per step; nil means none.
	Progress io.Writer
	// Components and Images are the contents of the release; nil means those of
	// package payload.
	Components []payload.Component
	Images     []payload.ImageSpec
	// About is what the release says of itself; nil means payload.Present.
	About *payload.About
}

// Result is the outcome of a build.
type Result struct {
	Manifest Manifest
	// Output is the folder of the release.
	Output string
	// Built counts the steps that had to run; it is zero if everything was in the
	// cache.
	Built int
	// Changed is true if the folder had other contents before.
	Changed bool
	// Seconds is the duration of the build.
	Seconds float64
}

type builder struct {
	opts  Options
	cache *cache
	tools toolchain

	mu    sync.Mutex // guards built and Progress
	built int

	// forgotten holds the keys of steps that Refresh has already dropped.
	forgotten sync.Map

	distOnce sync.Once // guards dist and distErr
	dist     *distribution
	distErr  error
}

// Build makes a release, or finds an existing one. It may be interrupted at any
// moment, even by a power cut, and continues where it was. Parallel builds
// share their work.
func Build(ctx context.Context, opts Options) (*Result, error) {
	res, err := run(ctx, opts)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the build was interrupted; completed parts are kept, run it again to continue: %w", context.Cause(ctx))
	}
	return res, err
}

func run(ctx context.Context, opts Options) (*Result, error) {
	start := time.Now()
	b, images, err := prepare(ctx, opts)
	if err != nil {
		return nil, err
	}
	done, err := b.buildComponents(ctx, images)
	if err != nil {
		return nil, err
	}
	made, err := b.buildImages(ctx, images, done)
	if err != nil {
		return nil, err
	}
	m, changed, err := b.write(ctx, made, done)
	if err != nil {
		return nil, fmt.Errorf("write the release to %s: %w", b.opts.Output, err)
	}
	if err := b.cache.prune(); err != nil {
		return nil, fmt.Errorf("tidy the build cache: %w", err)
	}
	return &Result{Manifest: m, Output: b.opts.Output, Built: b.built, Changed: changed, Seconds: time.Since(start).Seconds()}, nil
}

// prepare fills in defaults, opens the cache and chooses the images.
func prepare(ctx context.Context, opts Options) (*builder, []payload.ImageSpec, error) {
	var err error
	if opts.Root, err = filepath.Abs(opts.Root); err != nil {
		return nil, nil, err
	}
	if opts.Output == "" {
		opts.Output = filepath.Join(opts.Root, "_output", "release")
	}
	if opts.Output, err = filepath.Abs(opts.Output); err != nil {
		return nil, nil, err
	}
	if opts.Cache == "" {
		if opts.Cache, err = CacheDir(); err != nil {
			return nil, nil, err
		}
	}
	if opts.Jobs <= 0 {
		opts.Jobs = 2
	}
	if opts.Components == nil {
		opts.Components = payload.Components()
	}
	if opts.Images == nil {
		opts.Images = payload.Images()
	}
	if opts.About == nil {
		about := payload.Present()
		about.Arguments = kubeadm.Arguments()
		opts.About = &about
	}
	images, err := chosen(opts.Images, opts.Only)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{opts: opts}
	if b.cache, err = openCache(opts.Cache); err != nil {
		return nil, nil, err
	}
	b.tools, err = readToolchain(ctx, opts.Root)
	return b, images, err
}

// chosen returns the named images, or all if only is empty; the error names all
// mistakes.
func chosen(images []payload.ImageSpec, only []string) ([]payload.ImageSpec, error) {
	if len(only) == 0 {
		return images, nil
	}
	var out []payload.ImageSpec
	var known []string
	for _, i := range images {
		known = append(known, i.Name)
		if slices.Contains(only, i.Name) {
			out = append(out, i)
		}
	}
	unknown := slices.DeleteFunc(slices.Clone(only), func(n string) bool { return slices.Contains(known, n) })
	if len(unknown) > 0 {
		return nil, fmt.Errorf("no image %s in a release; there are %s", strings.Join(unknown, ", "), strings.Join(known, ", "))
	}
	return out, nil
}

// buildComponents compiles the components that the images need.
func (b *builder) buildComponents(ctx context.Context, images []payload.ImageSpec) (map[string]built, error) {
	needed := map[string]bool{}
	for _, i := range images {
		for _, name := range componentsOf(i) {
			needed[name] = true
		}
	}
	done := map[string]built{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.opts.Jobs)
	for _, c := range b.opts.Components {
		if !needed[c.Name] {
			continue
		}
		delete(needed, c.Name)
		group.Go(func() error {
			r, err := b.component(ctx, c)
			if err != nil {
				return err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			done[c.Name] = r
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for name := range needed {
		return nil, fmt.Errorf("no component %s, which an image needs", name)
	}
	return done, nil
}

func (b *builder) component(ctx context.Context, c payload.Component) (built, error) {
	start := time.Now()
	s, err := b.componentStep(ctx, c)
	if err != nil {
		return built{}, err
	}
	s.begun = func() { b.say("component "+c.Name, c.Version, "", "building") }
	var out Component
	res, err := b.cache.do(ctx, s, &out)
	if err != nil {
		return built{}, err
	}
	b.report("component "+c.Name, c.Version, res.ran, time.Since(start), out.Size)
	return built{Component: out, dir: res.dir}, nil
}

func (b *builder) buildImages(ctx context.Context, images []payload.ImageSpec, done map[string]built) ([]builtImage, error) {
	made := make([]builtImage, len(images))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.opts.Jobs)
	for i, spec := range images {
		group.Go(func() error {
			start := time.Now()
			img, err := b.image(ctx, spec, done)
			if err != nil {
				return err
			}
			made[i] = img
			b.report("image "+spec.Name, spec.Tag, img.ran, time.Since(start), img.summary().Size)
			return nil
		})
	}
	return made, group.Wait()
}

// report counts a step and prints its line.
func (b *builder) report(what, version string, ran bool, took time.Duration, size int64) {
	if !ran {
		b.say(what, version, Size(size), "cached")
		return
	}
	b.mu.Lock()
	b.built++
	b.mu.Unlock()
	b.say(what, version, Size(size), fmt.Sprintf("built in %.1f s", took.Seconds()))
}

// say prints a line of progress. A broken terminal must not end a build.
func (b *builder) say(what, version, size, state string) {
	if b.opts.Progress == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = fmt.Fprintf(b.opts.Progress, "%-34s %-10s %9s  %s\n", what, version, size, state)
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	const mb = 1 << 20
	if n < mb {
		return fmt.Sprintf("%.0f kB", float64(n)/1024)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/mb)
}

// packages returns the resolved packages and their folder.
func (b *builder) packages(ctx context.Context, names []string) ([]debPackage, string, error) {
	d, err := b.distribution()
	if err != nil {
		return nil, "", err
	}
	key, err := keyOf("apt with sizes", names, d.sources, b.tools.GOARCH)
	if err != nil {
		return nil, "", err
	}
	if err := b.forgetOnce(ctx, "apt", key); err != nil {
		return nil, "", err
	}
	var packages []debPackage
	res, err := b.cache.do(ctx, step{kind: "apt", key: key, run: func(ctx context.Context, dir string) (any, error) {
		return d.fetch(ctx, dir, names)
	}}, &packages)
	return packages, res.dir, err
}

// forgetOnce drops the result of a step once per build, if Refresh is set.
func (b *builder) forgetOnce(ctx context.Context, kind, key string) error {
	if !b.opts.Refresh {
		return nil
	}
	if _, before := b.forgotten.LoadOrStore(key, true); before {
		return nil
	}
	return b.cache.forget(ctx, kind, key)
}
