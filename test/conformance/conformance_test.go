package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
)

var (
	shapes   = flag.String("shape", "", "the site: control planes + workers, as 2+1; several with commas; none builds and lists alone. Without a shape nothing runs")
	labName  = flag.String("lab", "conf", "the lab. One that is up already is taken as it is, and is not taken down")
	keep     = flag.Bool("keep", false, "leave the lab up at the end")
	program  = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	families = flag.String("families", "v4,v6", "address families of a new lab")
	focus    = flag.String("focus", "", "a pattern of the specs to run; empty for all")
	skip     = flag.String("skip", "", "a pattern of the specs to leave out")
	parallel = flag.Int("parallel", 4, "how many specs run at once, of those that may")
	output   = flag.String("output", "../../_output/conformance", "where images, reports and logs go")
)

// phases returns the two runs of the suite: no other spec may run beside a
// Serial one.
func phases() []Run {
	return []Run{
		{Name: "parallel", Labels: "Conformance && !Serial", Procs: *parallel, Within: 5 * time.Hour},
		{Name: "serial", Labels: "Conformance && Serial", Procs: 1, Within: 4 * time.Hour},
	}
}

func TestConformance(t *testing.T) {
	if *shapes == "" {
		t.Skip("Kubernetes' own tests are run by 'hack/test conformance'")
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := filepath.Abs(*output)
	if err != nil {
		t.Fatal(err)
	}
	kit, err := Build(ctx, "../..", dir, os.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if *shapes == "none" {
		list(ctx, t, kit, dir)
		return
	}
	for name := range strings.SplitSeq(*shapes, ",") {
		t.Run(name, func(t *testing.T) { onShape(ctx, t, kit, name, filepath.Join(dir, name)) })
		if ctx.Err() != nil {
			t.Fatalf("ended: %v", context.Cause(ctx))
		}
	}
}

// list checks the images and lists the specs.
func list(ctx context.Context, t *testing.T, kit *Kit, dir string) {
	if err := kit.Images.Verify(); err != nil {
		t.Error(err)
	}
	unmade, err := kit.Unmade()
	if err != nil || len(unmade) > 0 {
		t.Errorf("images that specs ask for and nobody makes: %q: %v", unmade, err)
	}
	all := Report{}
	for _, r := range phases() {
		r.Dir, r.Focus, r.Skip, r.Procs = filepath.Join(dir, "none"), *focus, *skip, 1
		report, err := kit.Play(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d specs of %d", r.Name, len(report.Specs), len(report.Names))
		all.Names = append(all.Names, report.Names...)
	}
	for _, problem := range Judge(all, exceptions) {
		t.Error(problem)
	}
}

func onShape(ctx context.Context, t *testing.T, kit *Kit, name, dir string) {
	site := open(ctx, t, name)
	if err := labsite.Until(ctx, labsite.WholeWithin, time.Second, func() error { return site.Whole(ctx) }); err != nil {
		t.Fatalf("the site is not whole before: %v", err)
	}
	if err := carry(ctx, site, kit); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := site.Lab.WriteKubeconfig(ctx, site.Power)
	if err != nil {
		t.Fatal(err)
	}
	all, tables := Report{}, ""
	for _, r := range phases() {
		r.Dir, r.Focus, r.Skip, r.Kubeconfig = dir, *focus, *skip, kubeconfig
		report, table, err := play(ctx, t, kit, r)
		if err != nil {
			t.Fatal(err)
		}
		all.Specs, all.Names = append(all.Specs, report.Specs...), append(all.Names, report.Names...)
		tables += table
		t.Logf("Kubernetes' Conformance tests on %s\n%s", name, table)
	}
	if err := os.WriteFile(filepath.Join(dir, "table.txt"), []byte(tables), 0o644); err != nil {
		t.Error(err)
	}
	if len(all.Specs) == 0 {
		t.Errorf("no spec ran: none matches -focus %q without -skip %q", *focus, *skip)
	}
	for _, problem := range Judge(all, On(name, exceptions)) {
		t.Error(problem)
	}
}

// play runs one phase, and reports its progress every other minute.
func play(ctx context.Context, t *testing.T, kit *Kit, r Run) (Report, string, error) {
	r.Done = new(atomic.Int64)
	began, ended := time.Now(), make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		every := time.NewTicker(2 * time.Minute)
		defer every.Stop()
		for {
			select {
			case <-ended:
				return
			case <-every.C:
				t.Logf("%s: %d specs have ended after %s (%s)", r.Name, r.Done.Load(), time.Since(began).Round(time.Second), filepath.Join(r.Dir, r.Name+".log"))
			}
		}
	})
	report, err := kit.Play(ctx, r)
	close(ended)
	watch.Wait()
	return report, Table(r.Name, report, time.Since(began)), err
}

var shapeForm = regexp.MustCompile(`^([1235])\+([0-9]|1[0-9]|20)$`)

// open brings up the lab of a shape, or uses the existing one.
func open(ctx context.Context, t *testing.T, name string) *labsite.Site {
	t.Helper()
	m := shapeForm.FindStringSubmatch(name)
	if m == nil {
		t.Fatalf("-shape %q: want control planes + workers, as 2+0, 2+1 or 1+1", name)
	}
	controlPlanes, _ := strconv.Atoi(m[1]) // the pattern allows only digits
	workers, _ := strconv.Atoi(m[2])
	up := []string{"--control-planes=" + m[1], "--workers=" + m[2], "--families=" + *families, "--post-delay=0s"}
	there, err := lab.Open(labsite.Root(), *labName)
	if err != nil && !errors.Is(err, lab.ErrNoLab) {
		t.Fatal(err)
	}
	if err == nil {
		spec := there.Options.Spec
		if spec.ControlPlanes != controlPlanes || spec.Workers != workers {
			t.Fatalf("lab %s is up with %d control planes and %d workers, -shape says %s: take it down or name another one with -lab",
				*labName, spec.ControlPlanes, spec.Workers, name)
		}
		up = again(spec)
	}
	found := err == nil
	// The lab is taken down even if somebody interrupts while it comes up.
	if !found && !*keep {
		t.Cleanup(func() { down(context.WithoutCancel(ctx), t) })
	}
	t.Logf("lab %s: holdfast lab up %s", *labName, strings.Join(up, " "))
	site, err := labsite.Open(ctx, labsite.Options{Name: *labName, Program: *program, Up: up})
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// again returns the flags with which an existing lab stays as it is.
func again(s lab.Spec) []string {
	var list []string
	for _, f := range s.Families {
		list = append(list, string(f))
	}
	up := []string{
		fmt.Sprintf("--control-planes=%d", s.ControlPlanes), fmt.Sprintf("--workers=%d", s.Workers),
		fmt.Sprintf("--spare-workers=%d", s.SpareWorkers), "--post-delay=" + s.POSTDelay.String(),
		"--families=" + strings.Join(list, ","), "--platform=" + string(s.Platform),
	}
	if s.CertificateValidity != "" {
		up = append(up, "--certificate-validity="+s.CertificateValidity)
	}
	if s.Pull {
		up = append(up, "--pull")
	}
	return up
}

// down takes the lab down.
func down(ctx context.Context, t *testing.T) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	path, err := filepath.Abs(*program)
	if err == nil {
		err = labsite.Remove(ctx, path, *labName)
	}
	if err != nil {
		t.Errorf("take lab %s down: %v", *labName, err)
	}
}

// carry gives every host the images, pinned: kubelet would delete them on a
// nearly full disk, and nobody would bring them back.
func carry(ctx context.Context, site *labsite.Site, kit *Kit) error {
	hosts, err := site.Hosts(ctx)
	if err != nil {
		return err
	}
	for _, name := range hosts {
		h, _ := site.Lab.Layout.Host(name)
		read, write := io.Pipe()
		go func() { write.CloseWithError(kit.Images.WriteImageArchive(write)) }()
		var said strings.Builder
		line := []string{"sh", "-c", "PATH=/usr/local/bin:$PATH; exec ctr -n k8s.io images import --local -"}
		err := site.Lab.Exec(ctx, h, line, lab.ExecStreams{In: read, Out: &said, Err: &said})
		if err := errors.Join(err, read.Close()); err != nil {
			return fmt.Errorf("images for %s: %w: %s", name, err, said.String())
		}
		if _, err := site.Sh(ctx, name, pin(kit.Refs)); err != nil {
			return fmt.Errorf("pin the images: %w", err)
		}
	}
	return nil
}

// pin returns a script that pins images.
func pin(refs []string) string {
	var b strings.Builder
	b.WriteString("set -e\n")
	for _, ref := range refs {
		fmt.Fprintf(&b, "ctr -n k8s.io images label %s io.cri-containerd.pinned=pinned\n", ref)
	}
	return b.String()
}
