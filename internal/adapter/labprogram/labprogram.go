// Package labprogram calls the lab, which is a separate program: it finds
// holdfast-lab beside the running program, hands a command line over to it, and
// asks it where the files of a lab are. It contains no part of the lab itself.
package labprogram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Name is the name of the program.
const Name = "holdfast-lab"

// Program is holdfast-lab.
type Program struct {
	// Path is the path of the program.
	Path string
}

// Beside returns the holdfast-lab that lies in the folder of the running
// program, and no other: both are of one build, and the lab runs as root.
func Beside() (Program, error) {
	self, err := os.Executable()
	if err != nil {
		return Program{}, fmt.Errorf("find %s beside this program: %w", Name, err)
	}
	return in(filepath.Dir(self))
}

func in(folder string) (Program, error) {
	path := filepath.Join(folder, Name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Program{}, fmt.Errorf("the lab is a program of its own, and %s does not exist: build it with 'make build', and keep it in one folder with holdfast", path)
	case err != nil:
		return Program{}, err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return Program{}, fmt.Errorf("%s is not an executable file: build it with 'make build'", path)
	}
	return Program{Path: path}, nil
}

// HandOver replaces this process by holdfast-lab with these arguments, so that
// terminal, signals and exit code are its own. It returns only if that fails.
// The name of holdfast-lab in the new process has the folder by which this
// program was called.
func (p Program) HandOver(args []string) error {
	called := Name
	if strings.ContainsRune(os.Args[0], '/') {
		called = filepath.Join(filepath.Dir(os.Args[0]), Name)
	}
	return host.ExecInPlace(p.Path, called, args)
}

// Place holds the paths and hosts of a lab, as printed by `holdfast-lab place
// -o json`.
type Place struct {
	Name string `json:"name"`
	// Kubeconfig is the path of a kubeconfig that works from this machine. If
	// it is empty, there is none, and NoKubeconfig gives the reason.
	Kubeconfig   string `json:"kubeconfig,omitempty"`
	NoKubeconfig string `json:"noKubeconfig,omitempty"`
	// Log is the path of the log of the lab's daemon.
	Log   string `json:"log"`
	Hosts []Host `json:"hosts"`
}

// Host is one host of a lab.
type Host struct {
	Name string `json:"name"`
	// ControlPlane says that it is a control plane of the site. One that is spare, or that
	// another machine has replaced, is none.
	ControlPlane bool `json:"controlPlane"`
	// Root is the folder through which this machine reaches the host's files.
	// It is valid for one boot of the host, and empty while the host is off.
	Root string `json:"root,omitempty"`
	// Exec is the prefix that runs a command on the host. Enter is quicker, but
	// its command is in no control group of the host: use it only for commands
	// that read and end soon.
	Exec  []string `json:"exec"`
	Enter []string `json:"enter"`
}

// APIAccess returns the path of the lab's kubeconfig, or the reason why there
// is none.
func (p Place) APIAccess() (string, error) {
	if p.Kubeconfig == "" {
		return "", errors.New(p.NoKubeconfig)
	}
	return p.Kubeconfig, nil
}

// Place asks for the paths and hosts of a lab. It makes sure that the lab's
// daemon runs.
func (p Program) Place(ctx context.Context, lab string) (Place, error) {
	var out Place
	text, err := host.Run(ctx, host.Command(p.Path, "place", "--name", lab, "--output", "json"))
	if err != nil {
		return out, said(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("%s is of another build than this program (run 'make build'): %w", p.Path, err)
	}
	return out, nil
}

// Complete returns the candidates with which a shell may complete a command
// line of the lab. The last word is the one to complete. Each candidate may
// have a description after a tab; the directive is cobra's.
func (p Program) Complete(ctx context.Context, words ...string) (candidates []string, directive int, err error) {
	text, err := host.Run(ctx, host.Command(p.Path, append([]string{"__complete"}, words...)...))
	if err != nil {
		return nil, 0, said(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := len(lines) - 1
	directive, err = strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, 0, fmt.Errorf("%s gave no completions: its last line is %q", p.Path, lines[last])
	}
	return lines[:last], directive, nil
}

// failure is the message of holdfast-lab when it failed, and its exit code. It
// is reported as if this program had said it: the command line of the call
// would help nobody.
type failure struct {
	text string
	code int
}

func (f failure) Error() string { return f.text }

// ExitCode makes it the exit code of this program too.
func (f failure) ExitCode() int { return f.code }

func said(err error) error {
	run, ok := errors.AsType[*host.RunError](err)
	if !ok || run.ExitCode <= 0 || run.Output == "" {
		return err
	}
	return failure{strings.TrimPrefix(strings.TrimSpace(run.Output), Name+": "), run.ExitCode}
}
