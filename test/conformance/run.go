package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Run is one run of the suite against one cluster.
type Run struct {
	// Name is the name of the run's files.
	Name string
	// Labels selects specs, like ginkgo's --label-filter. Focus and Skip are
	// patterns of names that select among these.
	Labels, Focus, Skip string
	// Procs is the number of specs that run at once.
	Procs int
	// Within bounds the whole run.
	Within time.Duration
	// Kubeconfig leads to the cluster; if it is empty, the run only lists the
	// specs.
	Kubeconfig string
	// Dir is the directory for the report and the output of the specs.
	Dir string
	// Done counts the specs that ended.
	Done *atomic.Int64
}

// cleanUpWithin is the time that interrupted specs have to clean up after
// themselves.
const cleanUpWithin = 90 * time.Second

// Play runs the specs and reads their report. A failed spec is no error.
func (k *Kit) Play(ctx context.Context, r Run) (Report, error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return Report{}, err
	}
	report := filepath.Join(r.Dir, r.Name+".xml")
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Report{}, err
	}
	log, err := os.Create(filepath.Join(r.Dir, r.Name+".log"))
	if err != nil {
		return Report{}, err
	}
	out := io.Writer(log)
	if r.Done != nil {
		out = io.MultiWriter(log, &counter{n: r.Done})
	}
	cmd := host.Command(k.Ginkgo, k.arguments(r)...)
	cmd.Env, cmd.Dir = k.environ(), r.Dir
	cmd.Stdout, cmd.Stderr, cmd.Grace = out, log, cleanUpWithin
	_, failed := host.Run(ctx, cmd)
	if err := errors.Join(log.Close(), context.Cause(ctx)); err != nil {
		return Report{}, err
	}
	f, err := os.Open(report)
	if err != nil {
		return Report{}, fmt.Errorf("the tests left no report (see %s): %w", log.Name(), errors.Join(failed, err))
	}
	defer func() { _ = f.Close() }() // it was only read
	return ReadReport(f)
}

// arguments returns the arguments of ginkgo. Options of the suite follow the
// two dashes.
func (k *Kit) arguments(r Run) []string {
	args := []string{
		"--no-color", "-v", fmt.Sprintf("--procs=%d", r.Procs), "--timeout=" + r.Within.String(),
		"--label-filter=" + r.Labels, "--junit-report=" + r.Name + ".xml", "--output-dir=" + r.Dir,
	}
	if r.Focus != "" {
		args = append(args, "--focus="+r.Focus)
	}
	if r.Skip != "" {
		args = append(args, "--skip="+r.Skip)
	}
	if r.Kubeconfig == "" {
		args = append(args, "--dry-run")
	}
	return append(args, k.Suite, "--", "--kubeconfig="+r.Kubeconfig, "--kubectl-path="+k.Kubectl,
		"--provider=skeleton", "--disable-log-dump", "--e2e-output-dir="+r.Dir)
}

// counter counts the lines that ginkgo writes at the end of a spec.
type counter struct {
	n    *atomic.Int64
	rest string
}

func (c *counter) Write(p []byte) (int, error) {
	text := c.rest + string(p)
	end := strings.LastIndexByte(text, '\n') + 1
	for line := range strings.Lines(text[:end]) {
		if strings.HasPrefix(line, "• [") {
			c.n.Add(1)
		}
	}
	c.rest = text[end:]
	return len(p), nil
}
