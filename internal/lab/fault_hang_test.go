package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// smallDisk mounts a small file system and returns its directory.
func smallDisk(t *testing.T) string {
	t.Helper()
	needLab(t)
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"truncate", "-s", "16M", image}, {"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, dir}} {
		if _, err := host.Run(t.Context(), host.Command(line[0], line[1:]...)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// write returns a channel that is closed once a small file is on the disk.
func write(t *testing.T, dir string) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("word"), 0o600); err != nil {
			t.Error(err)
		}
	}()
	return done
}

func within(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

func TestADiskHangsUntilItIsClearedAndLetsADyingHostGo(t *testing.T) {
	dir := smallDisk(t)
	var dying atomic.Bool
	s, err := startHang(dir, dying.Load)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	time.Sleep(2 * hangPause)
	first := write(t, dir)
	if within(first, 5*hangPause) {
		t.Fatal("a write ended while the disk hung")
	}
	dying.Store(true)
	if !within(first, 5*time.Second) {
		t.Fatal("a host that dies waits for its disk")
	}
	dying.Store(false)
	time.Sleep(4 * hangPause)
	second := write(t, dir)
	if within(second, 5*hangPause) {
		t.Fatal("the disk does not hang after a boot of the host")
	}
	s.stop()
	if !within(second, 5*time.Second) {
		t.Error("the disk hangs after the fault was cleared")
	}
}

func TestWhatAKilledDaemonLeftFrozenIsThawedBeforeALabIsRemoved(t *testing.T) {
	disk := smallDisk(t)
	lab := t.TempDir()
	below := filepath.Join(lab, "hosts", "cp-1", "etcd")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(disk, below, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(below, 0) })
	f, err := os.Open(disk)
	if err == nil {
		err = unix.IoctlSetInt(int(f.Fd()), ioctlFreeze, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := write(t, disk)
	err = thawAll(lab)
	_ = unix.IoctlSetInt(int(f.Fd()), ioctlThaw, 0) // a second one fails
	if err = errors.Join(err, f.Close()); err != nil || !within(done, 5*time.Second) {
		t.Errorf("the disk still hangs (%v)", err)
	}
}

func TestAProcessThatEndsIsToldFromOneThatLives(t *testing.T) {
	if exiting(os.Getpid()) {
		t.Error("this process is about to end")
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !exiting(cmd.Process.Pid) {
		t.Error("a process that is gone is not about to end")
	}
}

func TestAFrozenProcessStandsStillAndDiesOfSIGKILL(t *testing.T) {
	needLab(t)
	root, err := cgroup2()
	if err != nil {
		t.Skip(err)
	}
	own := "hf-" + realName + "-test-frozen-sleep"
	t.Cleanup(func() {
		if err := dissolve(root, own); err != nil {
			t.Error(err)
		}
	})
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := freeze(root, "no container", own, cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	frozen := func() bool {
		data, _ := os.ReadFile(filepath.Join(root, own, "cgroup.events"))
		return strings.Contains(string(data), "frozen 1")
	}
	first := start()
	eventually(t, "it is frozen", frozen)
	if err := dissolve(root, own); err != nil {
		t.Fatal(err)
	}
	if frozen() || exiting(first.Process.Pid) {
		t.Error("a process is frozen or dead after the fault was cleared")
	}
	second := start()
	eventually(t, "it is frozen", frozen)
	for _, cmd := range []*exec.Cmd{first, second} {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	if err := dissolveAll(realName); err != nil || exists(filepath.Join(root, own)) {
		t.Errorf("a group is left: %v", err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !ok() {
		if host.Sleep(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
