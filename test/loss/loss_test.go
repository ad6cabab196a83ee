// Package loss_test loses hosts and whole sites for good, and brings them back. It needs
// root and a built release; hack/test loss calls it.
package loss_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/test/labsite"
)

var (
	labName = flag.String("lab", "", "the lab; it is brought up. Without a name nothing runs")
	keep    = flag.Bool("keep", false, "leave the lab up at the end")
	program = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	planes  = flag.Int("control-planes", 2, "control planes of the site that is lost")
	workers = flag.Int("workers", 0, "its workers")
	cutAt   = flag.String("widen-cut", "", "STAGE:HOST of a plan by which a third control plane comes or goes: cut that host's power once the plan is at that stage, for example handing:cp-1")
	after   = flag.Int("restored-control-planes", 0, "control planes of the site that takes its place; 0 for as many")
)

// site is a lab that a test brings up and takes down.
type site struct {
	*labsite.Site
	*testing.T
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // only libraries use this logger, and their messages do not matter
	os.Exit(m.Run())
}

// up brings the lab up, and takes it down at the test's end.
func up(t *testing.T, controlPlanes int, flags ...string) site {
	t.Helper()
	if *labName == "" {
		t.Skip("hosts and sites are lost by 'hack/test loss'")
	}
	began := time.Now()
	all := append([]string{fmt.Sprintf("--control-planes=%d", controlPlanes), fmt.Sprintf("--workers=%d", *workers), "--post-delay=5s"}, flags...)
	s, err := labsite.Open(t.Context(), labsite.Options{Name: *labName, Program: *program, Up: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lab %s is up after %.0f s", *labName, time.Since(began).Seconds())
	t.Cleanup(func() {
		if *keep && t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := s.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	return site{s, t}
}

// on runs a script on a host.
func (s site) on(host, script string) string {
	s.Helper()
	out, err := s.Sh(s.Context(), host, script)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// eventually waits until check returns nil.
func (s site) eventually(within time.Duration, what string, check func() error) {
	s.Helper()
	if err := labsite.Until(s.Context(), within, time.Second, check); err != nil {
		s.Fatalf("not within %s: %s: %v", within, what, err)
	}
}
