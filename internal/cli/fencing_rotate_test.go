package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
)

// secrets simulates the cluster; put may fail or hang.
type secrets struct {
	has map[string][]byte
	put func(context.Context) error
}

func (s *secrets) PutSecret(ctx context.Context, _, _ string, data map[string][]byte) error {
	if err := s.put(ctx); err != nil {
		return err
	}
	s.has = data
	return nil
}

// TestAPasswordChangedBehindTheClustersBackIsMendedWithTheAPIDown covers the
// whole course: the BMC accepts only the new password, the Secret has the old
// one, and the API does not answer until later.
func TestAPasswordChangedBehindTheClustersBackIsMendedWithTheAPIDown(t *testing.T) {
	r, out := rotationOf(t, "new words\n", rotateFlags{passwordFile: "-"})
	old, err := r.store.Read("cp-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.Test(t.Context(), old).Err(); err == nil {
		t.Fatal("the password was not changed")
	}
	var cleared []string
	r.clear = func(_ context.Context, target string) error {
		if dev, err := r.store.Read(target); err != nil || dev.Password != "new words" {
			t.Errorf("Pacemaker tries the device before it is the new one: %v", err)
		}
		cleared = append(cleared, target)
		return nil
	}
	if err := r.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	dev, err := r.store.Read("cp-1")
	if err != nil || r.store.Test(t.Context(), dev).Err() != nil || len(cleared) != 1 || cleared[0] != "cp-1" {
		t.Errorf("fencing does not work with the new account: %v, cleared %q", err, cleared)
	}
	if !strings.Contains(out.String(), "holdfast fencing rotate --push") || !strings.Contains(out.String(), "Pacemaker: tries the device at once") {
		t.Errorf("it said %s", out)
	}
	// The cluster is back and distributes the old account of its Secret. The BMC
	// refuses it, and the working account stays.
	results, err := r.store.Write(t.Context(), []state.FencingDevice{old})
	if err != nil || !results[0].Kept {
		t.Errorf("%+v, %v", results, err)
	}
	cloud := &secrets{put: func(context.Context) error { return nil }}
	r.cluster = func() (fence.Secrets, error) { return cloud, nil }
	if err := r.pushAll(t.Context()); err != nil || string(cloud.has["password"]) != "new words" || r.store.IsPending("cp-1") {
		t.Errorf("%v, %s", err, cloud.has["password"])
	}
	if strings.Contains(out.String(), "words") {
		t.Errorf("it said a password: %s", out)
	}
}

// TestADeviceThatIsGoneOrDamagedIsWrittenAnew: the runbook and the error of a damaged file name
// this command.
func TestADeviceThatIsGoneOrDamagedIsWrittenAnew(t *testing.T) {
	whole := rotateFlags{address: "https://10.99.0.111", username: "fencer", passwordFile: "-"}
	without := func(drop func(*rotateFlags)) rotateFlags { f := whole; drop(&f); return f }
	path := func(r *rotation) string { return r.store.Files.Path(state.FencingDir + "/cp-1.json") }
	gone := func(r *rotation) error { return os.Remove(path(r)) }
	for name, c := range map[string]struct {
		lose   func(*rotation) error
		flags  rotateFlags
		target string
		want   string // of the error; empty for a device that is written
	}{
		"gone":                       {gone, whole, "cp-1", ""},
		"damaged":                    {func(r *rotation) error { return os.WriteFile(path(r), []byte(`{"tar`), 0o600) }, whole, "cp-1", ""},
		"that of another host":       {func(r *rotation) error { return os.WriteFile(path(r), []byte(`{"target":"cp-9"}`), 0o600) }, whole, "cp-1", ""},
		"without an account":         {func(r *rotation) error { return os.WriteFile(path(r), []byte(`{"target":"cp-1"}`), 0o600) }, whole, "cp-1", ""},
		"gone, and no flag is given": {gone, rotateFlags{}, "cp-1", "--address, --username and --password-file"},
		"gone, and no address":       {gone, without(func(f *rotateFlags) { f.address = "" }), "cp-1", "--address, --username and --password-file"},
		"gone, and no user":          {gone, without(func(f *rotateFlags) { f.username = "" }), "cp-1", "--address, --username and --password-file"},
		"gone, and no password":      {gone, without(func(f *rotateFlags) { f.passwordFile = "" }), "cp-1", "--address, --username and --password-file"},
		"that of this host itself":   {gone, whole, "cp-2", "never its own"},
		"that of no node":            {gone, whole, "../cp-1", "not a valid node name"},
	} {
		t.Run(name, func(t *testing.T) {
			r, out := rotationOf(t, "new words\n", c.flags)
			r.self = "cp-2"
			if err := c.lose(r); err != nil {
				t.Fatal(err)
			}
			err := r.run(t.Context(), c.target)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return
			}
			dev, read := r.store.Read("cp-1")
			if err != nil || read != nil || dev.Target != "cp-1" || dev.Address != "https://10.99.0.111" || dev.Username != "fencer" || dev.Password != "new words" {
				t.Errorf("%v, %v: the device is at %q for %q", err, read, dev.Address, dev.Target)
			}
			if strings.Contains(out.String(), "words") || !r.store.IsPending("cp-1") {
				t.Errorf("it said %s", out)
			}
		})
	}
}

func TestARotationThatIsCutOffWhileTheAPIHangsHasWrittenTheDeviceAndRemembers(t *testing.T) {
	r, out := rotationOf(t, "new words\n", rotateFlags{passwordFile: "-", output: "json"})
	ctx, stop := context.WithCancel(t.Context())
	cloud := &secrets{put: func(ctx context.Context) error {
		stop() // an administrator presses Ctrl-C
		<-ctx.Done()
		return ctx.Err()
	}}
	r.cluster = func() (fence.Secrets, error) { return cloud, nil }
	if err := r.run(ctx, "cp-1"); err != nil {
		t.Fatal(err)
	}
	var said rotated
	line, _, _ := strings.Cut(out.String(), "\n}")
	if err := json.Unmarshal([]byte(line+"\n}"), &said); err != nil || !said.Wrote || !strings.HasPrefix(said.Secret, "pending: context canceled") {
		t.Errorf("%+v, %v, %s", said, err, out)
	}
	if dev, err := r.store.Read("cp-1"); err != nil || dev.Password != "new words" || !r.store.IsPending("cp-1") {
		t.Errorf("%v", err)
	}
}

func TestARotationSucceedsWherePacemakerCannotBeTold(t *testing.T) {
	r, out := rotationOf(t, "new words\n", rotateFlags{passwordFile: "-"})
	r.clear = func(context.Context, string) error { return errors.New("crm_resource is not there") }
	if err := r.run(t.Context(), "cp-1"); err != nil || !strings.Contains(out.String(), "could not be notified, retries the device by itself: crm_resource is not there") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPacemakerIsNotToldOfARotationThatChangedNothing(t *testing.T) {
	r, _ := rotationOf(t, "bad words\n", rotateFlags{passwordFile: "-"})
	r.clear = func(context.Context, string) error {
		t.Error("it was told")
		return nil
	}
	if err := r.run(t.Context(), "cp-1"); err == nil {
		t.Error("a password that the BMC refuses was taken")
	}
}

// TestARotationThatCannotRememberChangesNothing: without the marker, the old
// account in the Secret could replace the only one that works.
func TestARotationThatCannotRememberChangesNothing(t *testing.T) {
	r, _ := rotationOf(t, "new words\n", rotateFlags{passwordFile: "-"})
	if err := host.WriteFileAtomic(r.store.Files.Path(state.FencingPendingDir), nil, 0o600); err != nil { // in the place of its folder
		t.Fatal(err)
	}
	if err := r.run(t.Context(), "cp-1"); err == nil {
		t.Error("it said nothing")
	}
	if dev, err := r.store.Read("cp-1"); err != nil || dev.Password != "old words" {
		t.Errorf("%v", err)
	}
}

func TestAPushWithTheAPIStillDownFailsAndForgetsNothing(t *testing.T) {
	r, out := rotationOf(t, "new words\n", rotateFlags{passwordFile: "-"})
	if err := r.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	if err := r.pushAll(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") || !r.store.IsPending("cp-1") {
		t.Errorf("%v", err)
	}
	out.Reset()
	if err := os.Remove(r.store.Files.Path(state.FencingPendingDir + "/cp-1")); err != nil {
		t.Fatal(err)
	}
	if err := r.pushAll(t.Context()); err != nil || out.String() != "Secrets written: -\n" {
		t.Errorf("with nothing to follow no API is asked: %v, %q", err, out)
	}
}

func TestAConfirmationNamesTheRotationWhereTheBMCRefusesTheAccount(t *testing.T) {
	refused := &redfish.Error{Op: "read power", Host: "10.99.0.2", Reason: redfish.Credentials, Detail: "it answers 401"}
	s := lone(was(state.EtcdSole))
	h := s.host()
	for _, c := range []struct {
		err  error
		want bool
	}{{refused, true}, {errors.New("no answer within 10s"), false}} {
		h.power = func(context.Context, string) (string, error) { return "", c.err }
		got, err := (&confirmation{host: h}).gather(t.Context())
		if err != nil || !strings.Contains(got.BMC.Problem, c.err.Error()) {
			t.Errorf("%+v, %v", got.BMC, err)
		}
		if strings.Contains(got.BMC.Problem, "sudo holdfast fencing rotate cp-2") != c.want {
			t.Errorf("%v: %s", c.err, got.BMC.Problem)
		}
	}
}

// terminal returns a terminal, and the file of who types at it.
func terminal(t *testing.T) (tty, types *os.File) {
	t.Helper()
	types, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT TESTED: no terminals on this machine: %v", err)
	}
	t.Cleanup(func() { _ = types.Close() })
	fd := int(types.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT TESTED: no terminals on this machine: %v", err)
	}
	return tty, types
}

// echoes reports whether a terminal shows what is typed.
func echoes(t *testing.T, tty *os.File) bool {
	t.Helper()
	settings, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return settings.Lflag&unix.ECHO != 0
}

func TestAnInterruptEndsTheQuestionForAPasswordAndGivesTheEchoBack(t *testing.T) {
	tty, _ := terminal(t)
	r, _ := rotationOf(t, "", rotateFlags{})
	r.streams.In = tty
	ctx, interrupt := context.WithCancel(t.Context())
	answered := make(chan error)
	go func() {
		_, err := r.prompt(ctx, deviceBefore())
		answered <- err
	}()
	for echoes(t, tty) { // until the password is read
		runtime.Gosched()
	}
	interrupt()
	if err := <-answered; command.ExitCode(err) != command.ExitNotConfirmed || !strings.Contains(err.Error(), "interrupted") || !echoes(t, tty) {
		t.Errorf("%v; echoes: %t", err, echoes(t, tty))
	}
}

func TestAPasswordIsReadFromATerminal(t *testing.T) {
	tty, types := terminal(t)
	r, _ := rotationOf(t, "", rotateFlags{})
	r.streams.In = tty
	if _, err := types.WriteString("new words\n"); err != nil {
		t.Fatal(err)
	}
	if password, err := r.prompt(t.Context(), deviceBefore()); err != nil || password != "new words" || !echoes(t, tty) {
		t.Errorf("%d characters, %v", len(password), err)
	}
}
