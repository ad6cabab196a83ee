package harness

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var (
	repetitions = flag.Int("runs", 1, "repetitions of each case")
	etcdPath    = flag.String("etcd", "", "the etcd binary; empty: of the last release that was built here, else built now")
	withLoss    = flag.Bool("loss", false, "force a new cluster instead, and count what is lost")
	keepLogs    = flag.String("logs", "", "folder for etcd's logs")
)

// inside is set in the process that runs in its own network namespace.
const inside = "HOLDFAST_STANDIN_NETNS"

// bin holds the paths of the programs under test.
var bin struct{ etcd, standin string }

func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case testing.Short():
		fmt.Println("harness: NOT RUN, since -short was given")
	case os.Geteuid() != 0:
		fmt.Println("harness: NOT RUN, since this is not root: it needs a network namespace of its own")
	case os.Getenv(inside) == "":
		os.Exit(enter())
	default:
		os.Exit(runTests(m))
	}
}

// enter runs this test binary again in a new network namespace.
func enter() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	case err != nil:
		fmt.Println("harness: enter a network namespace:", err)
		return 1
	}
	return 0
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "standin-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := errors.Join(network(), programs(dir)); err != nil {
		fmt.Println("harness:", err)
		return 1
	}
	return m.Run()
}

// network gives the two hosts their addresses.
func network() error {
	for _, line := range []string{
		"link set lo up", "addr add " + addrs[0] + "/32 dev lo", "addr add " + addrs[1] + "/32 dev lo",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// programs finds or builds etcd and builds the stand-in.
func programs(dir string) error {
	bin.standin, bin.etcd = filepath.Join(dir, "etcd-standin"), *etcdPath
	if out, err := exec.Command("go", "build", "-o", bin.standin, "..").CombinedOutput(); err != nil {
		return fmt.Errorf("build the stand-in: %w: %s", err, out)
	}
	if bin.etcd != "" {
		return nil
	}
	if cache, err := os.UserCacheDir(); err == nil {
		if found, _ := filepath.Glob(filepath.Join(cache, "holdfast/steps/go-*/etcd")); len(found) > 0 {
			bin.etcd = found[0]
			return nil
		}
	}
	bin.etcd = filepath.Join(dir, "etcd")
	if out, err := exec.Command("go", "build", "-C", "../../etcd", "-o", bin.etcd, "go.etcd.io/etcd/server/v3").CombinedOutput(); err != nil {
		return fmt.Errorf("build etcd: %w: %s", err, out)
	}
	return nil
}
