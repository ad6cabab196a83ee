// Package dns tests a host's own name server as it is built for a release, with
// real packets on hosts that are network namespaces on one link.
package dns

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	program = flag.String("coredns", os.Getenv("HOLDFAST_COREDNS"), "the CoreDNS to try; it is built if none is named")
	measure = flag.Int("measure", 0, "how many rounds to measure answers for (0: none)")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getuid() != 0 {
		fmt.Println("test/net/dns: NOT RUN, since this is not root")
		return 0
	}
	if *program == "" {
		dir, err := os.MkdirTemp("", "holdfast-coredns-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		*program = filepath.Join(dir, "coredns")
		if err := build(*program); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// build makes the binary as a release does.
func build(to string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", to, ".")
	cmd.Dir = "../../../payload/coredns"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build coredns: %w\n%s", err, out)
	}
	return nil
}
