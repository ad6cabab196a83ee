package release

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/payload"
)

func TestSameInputsGiveTheSameDigests(t *testing.T) {
	a, b := build(t, coldOptions(t)), build(t, coldOptions(t)) // different folders and caches
	if a.Manifest.Digest != b.Manifest.Digest {
		t.Errorf("digests differ: %s, %s", a.Manifest.Digest, b.Manifest.Digest)
	}
	if !maps.Equal(snapshot(t, a.Output), snapshot(t, b.Output)) {
		t.Error("the folders differ")
	}
}

func TestASecondBuildDoesNothing(t *testing.T) {
	opts := coldOptions(t)
	first := build(t, opts)
	// Two components, and five layers of which two images share none: all steps
	// ran.
	if first.Built != 5 || !first.Changed {
		t.Fatalf("first build: %d steps, changed %v", first.Built, first.Changed)
	}
	before, err := os.Stat(filepath.Join(first.Output, indexFile))
	if err != nil {
		t.Fatal(err)
	}
	second := build(t, opts)
	after, err := os.Stat(filepath.Join(first.Output, indexFile))
	if err != nil {
		t.Fatal(err)
	}
	if second.Built != 0 || second.Changed || !os.SameFile(before, after) {
		t.Errorf("second build: %d steps, changed %v", second.Built, second.Changed)
	}
}

func TestAnotherCloneUsesTheSameCache(t *testing.T) {
	build(t, testOptions(t))
	b := testOptions(t)
	if res := build(t, b); res.Built != 0 || !res.Changed {
		t.Errorf("%d steps ran, changed %v; want none and a new folder", res.Built, res.Changed)
	}
}

func TestAChangeRebuildsOnlyWhatItTouches(t *testing.T) {
	tests := []struct {
		name, file, text string
		images           []string
		// steps counts the component, if it is compiled again, and the images.
		steps int
	}{
		{"code of one component", "alpha/main.go", "package main\n\nfunc main() {}\n", []string{"alpha", payload.HostImage}, 3},
		{"an embedded file", "beta/cmd/two/text", "zwei", []string{payload.HostImage}, 2},
		{"a test", "beta/cmd/two/x_test.go", "package main\n\n// changed\n", nil, 0},
		{"code that no binary uses", "beta/cmd/unused/main.go", "package main\n\nfunc main() { println() }\n", nil, 0},
		{"a comment at the end", "alpha/main.go", testSources["alpha/main.go"] + "\n// Comment.\n", nil, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts, first := builtOptions(t)
			if first.Built != 0 {
				t.Fatalf("%d steps ran before the change", first.Built)
			}
			before := first.Manifest
			write(t, filepath.Join(opts.Root, test.file), test.text)
			res := build(t, opts)
			if res.Built != test.steps {
				t.Errorf("%d steps ran, want %d", res.Built, test.steps)
			}
			for _, img := range res.Manifest.Images {
				old, _ := before.Image(img.Name)
				changed := old.Digest != img.Digest
				if want := strings.Contains(strings.Join(test.images, " "), img.Name); changed != want {
					t.Errorf("image %s changed: %v, want %v", img.Name, changed, want)
				}
			}
			if err := open(t, res.Output).Verify(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOldBlobsAreRemovedFromTheFolder(t *testing.T) {
	opts := testOptions(t)
	build(t, opts)
	opts.Only = []string{"beta"}
	res := build(t, opts)
	names, err := os.ReadDir(filepath.Join(res.Output, "blobs", "sha256"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 3 || len(res.Manifest.Images) != 1 || len(res.Manifest.Components) != 1 {
		t.Errorf("%d blobs, %d images, %d components; want layer, config, manifest of one image",
			len(names), len(res.Manifest.Images), len(res.Manifest.Components))
	}
}

func TestBuildErrorsSayWhatIsWrong(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Options)
		want   []string
	}{
		{"unknown images", func(o *Options) { o.Only = []string{"nope", "alpha", "nada"} }, []string{"nope, nada", "alpha, beta, host"}},
		{"code that does not compile", func(o *Options) {
			write(t, filepath.Join(o.Root, "alpha/main.go"), "package main\n\nfunc main() { x }\n")
		}, []string{"build alpha", "undefined: x"}},
		{"a component that is not there", func(o *Options) { o.Components = o.Components[:1] }, []string{"beta"}},
		{"a binary that no component builds", func(o *Options) {
			o.Images = []payload.ImageSpec{{Name: "x", Files: []payload.ImageFile{{Component: "alpha", Binary: "b", Path: "/b"}}}}
		}, []string{"image x", "alpha has no binary b"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts := testOptions(t)
			test.change(&opts)
			_, err := Build(t.Context(), opts)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
		})
	}
}

func TestAnInterruptedBuildSaysHowToGoOn(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("somebody pressed a key")
	cancel(cause)
	_, err := Build(ctx, coldOptions(t))
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("error %v", err)
	}
}

func TestAFailedStepLeavesNothingInTheCache(t *testing.T) {
	c, err := openCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no power")
	fail := true
	s := step{kind: "test", key: "1", run: func(_ context.Context, dir string) (any, error) {
		write(t, filepath.Join(dir, "half"), "done")
		if fail {
			return nil, broken
		}
		return "whole", nil
	}}
	var got string
	if _, err := c.do(t.Context(), s, &got); !errors.Is(err, broken) {
		t.Fatalf("error %v, want %v", err, broken)
	}
	fail = false
	if res, err := c.do(t.Context(), s, &got); err != nil || !res.ran || got != "whole" {
		t.Errorf("the step did not run again: %v, ran %v, %q", err, res.ran, got)
	}
	if left := snapshot(t, filepath.Join(c.dir, "tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTwoBuildsAtOnceShareTheirSteps(t *testing.T) {
	opts := coldOptions(t)
	var wg sync.WaitGroup
	results := make([]*Result, 4)
	errs := make([]error, len(results))
	for i := range results {
		wg.Go(func() { results[i], errs[i] = Build(context.Background(), opts) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	components := 0
	names, err := os.ReadDir(filepath.Join(opts.Cache, "steps"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), "go-") {
			components++
		}
	}
	sum := 0
	for _, r := range results {
		sum += r.Built
	}
	if components != 2 || sum < 5 || sum > 7 {
		t.Errorf("%d components in the cache, %d steps in all; want 2 and one build's worth", components, sum)
	}
	if err := open(t, results[0].Output).Verify(); err != nil {
		t.Error(err)
	}
}

// killEnv marks this test binary as a build that will be killed.
const killEnv = "HOLDFAST_TEST_BUILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(killEnv); text != "" {
		os.Exit(buildToBeKilled(text))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	warmCache = dir
	return m.Run()
}

func buildToBeKilled(text string) int {
	var opts Options
	if err := json.Unmarshal([]byte(text), &opts); err != nil {
		return 2
	}
	if _, err := Build(context.Background(), opts); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

func TestABuildThatIsKilledAtAnyMomentGoesOn(t *testing.T) {
	opts := coldOptions(t)
	start := time.Now()
	want := build(t, opts).Manifest.Digest
	whole := time.Since(start)
	opts.Cache, opts.Output = t.TempDir(), filepath.Join(t.TempDir(), "release")
	text, err := json.Marshal(opts)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+string(text))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // kill go's own children too
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(rand.N(whole), func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		err := cmd.Wait()
		kill.Stop()
		// After the kill there is either nothing or a whole release.
		if s, openErr := Open(opts.Output); openErr == nil {
			if err := s.Verify(); err != nil {
				t.Fatalf("after a kill (%v): %v", err, err)
			}
		}
		_ = err // the build was killed on purpose
		if cmd.ProcessState.Success() {
			// The build was faster than the kill: begin the next one from scratch.
			opts.Cache = t.TempDir()
			if text, err = json.Marshal(opts); err != nil {
				t.Fatal(err)
			}
		}
	}
	res := build(t, opts)
	if res.Manifest.Digest != want {
		t.Errorf("digest %s, want %s as without kills", res.Manifest.Digest, want)
	}
	if err := open(t, res.Output).Verify(); err != nil {
		t.Error(err)
	}
}
