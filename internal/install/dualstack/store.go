package dualstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The files of a plan on a host. The carrier keeps Nodes below nodesDir until they are made anew.
const (
	Dir      = "/var/lib/holdfast/dualstack"
	planPath = Dir + "/plan.json"
	nodesDir = Dir + "/nodes"
)

// Annotation is the annotation of a node with what its host says of a plan, as Doing.
const Annotation = state.AnnotationDomain + "dual-stack"

// Doing is what a host says of a plan, for the other hosts and for people.
type Doing struct {
	Plan    string       `json:"plan"`
	Stage   decide.Stage `json:"stage"`
	Begun   bool         `json:"begun,omitempty"`
	Settled bool         `json:"settled,omitempty"`
	// Lacks says what the host lacks for the second family, empty for nothing.
	Lacks string `json:"lacks,omitempty"`
	// Words say what the host does or waits for, Way what to type, Problem the error of its
	// last act.
	Words   string `json:"words,omitempty"`
	Way     string `json:"way,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Store reads and writes the files of one host.
type Store struct{ Root string }

func (s Store) path(name string) string { return filepath.Join("/", s.Root, name) }

// kept is a plan with its journal: one file, so that no journal is ever beside another plan.
type kept struct {
	Plan    *decide.Plan   `json:"plan"`
	Journal decide.Journal `json:"journal"`
}

// Load returns the plan of the host and how far it is, nil for none.
func (s Store) Load() (*decide.Plan, decide.Journal, error) {
	var k kept
	err := s.read(planPath, &k)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, decide.Journal{}, nil
	}
	return k.Plan, k.Journal, err
}

// Put keeps a plan and how far it is.
func (s Store) Put(p decide.Plan, j decide.Journal) error { return s.write(planPath, kept{&p, j}) }

// Drop removes the plan.
func (s Store) Drop() error {
	if err := os.RemoveAll(s.path(nodesDir)); err != nil {
		return err
	}
	return host.RemoveFile(s.path(planPath))
}

// Node returns the Node that was kept, nil for none.
func (s Store) Node(name string) (*corev1.Node, error) {
	var n corev1.Node
	err := s.read(filepath.Join(nodesDir, name+".json"), &n)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	return &n, err
}

// PutNode keeps a Node.
func (s Store) PutNode(n *corev1.Node) error {
	return s.write(filepath.Join(nodesDir, n.Name+".json"), n)
}

// DropNode removes a Node that was kept. It is no error if there is none.
func (s Store) DropNode(name string) error {
	return host.RemoveFile(s.path(filepath.Join(nodesDir, name+".json")))
}

func (s Store) read(path string, into any) error {
	data, err := os.ReadFile(s.path(path))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return err
}

func (s Store) write(path string, of any) error {
	data, err := json.MarshalIndent(of, "", "  ")
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(s.path(path), append(data, '\n'), state.SecretFileMode)
}
