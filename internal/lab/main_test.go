package lab

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// daemonVariable makes the test binary a lab daemon. Its value is the lab's
// directory.
const daemonVariable = "HOLDFAST_TEST_LAB_DAEMON"

// upVariable makes the test binary bring a lab up. Its value is the directory
// of labs.
const upVariable = "HOLDFAST_TEST_LAB_UP"

// downVariable makes the test binary remove that lab.
const downVariable = "HOLDFAST_TEST_LAB_DOWN"

func TestMain(m *testing.M) {
	if root := os.Getenv(upVariable); root != "" {
		os.Exit(testUp(root))
	}
	if root := os.Getenv(downVariable); root != "" {
		if err := Down(context.Background(), root, realName); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(daemonVariable); dir != "" {
		os.Exit(testDaemon(dir))
	}
	os.Exit(m.Run())
}

func testDaemon(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	b, err := Open(filepath.Dir(dir), filepath.Base(dir))
	if err == nil {
		err = RunDaemon(ctx, b, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func testUp(root string) int {
	u, err := testBuilder(root, os.Stderr)
	if err == nil {
		_, _, err = u.Up(context.Background(), Options{Spec: realSpec()})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func testLauncher(b *Lab) host.Cmd {
	return host.Cmd{Name: "/proc/self/exe", Env: []string{daemonVariable + "=" + b.Dir, upVariable + "=", downVariable + "=", nameVariable + "=" + realName}}
}
