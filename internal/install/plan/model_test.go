package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// model simulates a host in memory that takes steps as internal/install/apply
// does. It is the second, simple implementation against which plans are checked.
type model struct {
	Observed
	nextID int
}

func newModel(o Observed) *model {
	m := &model{Observed: o, nextID: 1000}
	m.Nodes = maps.Clone(o.Nodes)
	m.Users = maps.Clone(o.Users)
	m.Groups = maps.Clone(o.Groups)
	m.Units = maps.Clone(o.Units)
	if m.Nodes == nil {
		m.Nodes = map[string]Node{}
	}
	if m.Users == nil {
		m.Users = map[string]Account{}
	}
	if m.Groups == nil {
		m.Groups = map[string]int{}
	}
	if m.Units == nil {
		m.Units = map[string]UnitState{}
	}
	return m
}

func (m *model) ids(o *Owner, n Node) (int, int) {
	if o == nil {
		return n.UID, n.GID
	}
	uid, gid := m.Users[o.User.Name].UID, m.Groups[o.Group.Name]
	if o.User.ID != nil {
		uid = *o.User.ID
	}
	if o.Group.ID != nil {
		gid = *o.Group.ID
	}
	if o.OwnGroup {
		gid = m.Users[o.User.Name].GID
	}
	return uid, gid
}

func (m *model) put(p string, n Node, o *Owner) {
	n.UID, n.GID = m.ids(o, m.Nodes[p])
	if n.Identity == "" {
		m.nextID++
		n.Identity = fmt.Sprint(m.nextID)
	}
	m.Nodes[p] = n
}

func (m *model) take(a Action) {
	switch a := a.(type) {
	case *InstallPackages:
		m.Packages.Missing = nil
	case *CreateGroup:
		m.nextID++
		m.Groups[a.Group.Name] = m.nextID
		if a.Group.GID != nil {
			m.Groups[a.Group.Name] = *a.Group.GID
		}
	case *CreateUser:
		m.addUser(a.User)
	case *ChangeUser:
		u := m.Users[a.Name]
		if a.Shell != "" {
			u.Shell = a.Shell
		}
		u.Groups = append(slices.Clone(u.Groups), a.AddGroups...)
		m.Users[a.Name] = u
	case *SetPassword:
		u := m.Users[a.Name]
		u.PasswordHash = a.Hash
		m.Users[a.Name] = u
	case *MakeDirectory:
		m.put(a.Path, Node{Kind: KindDirectory, Mode: a.Mode}, a.Owner)
	case *WriteFile:
		m.put(a.Path, Node{Kind: KindFile, Mode: a.Mode, Data: a.Data}, a.Owner)
	case *SetMode:
		n := m.Nodes[a.Path]
		n.Mode = a.Mode
		m.put(a.Path, n, a.Owner)
	case *MakeLink:
		n := Node{Kind: KindLink, Target: a.Target}
		if a.Hard {
			n = m.Nodes[a.Target]
		}
		m.put(a.Path, n, a.Owner)
	case *Remove:
		delete(m.Nodes, a.Path)
	default:
		m.takeUnit(a)
	}
}

func (m *model) addUser(u User) {
	m.nextID++
	a := Account{UID: m.nextID, GID: m.nextID, Home: homeOf(u, nil), Shell: u.Shell, Groups: u.Groups}
	if u.UID != nil {
		a.UID = *u.UID
	}
	if gid, ok := m.Groups[u.PrimaryGroup]; ok {
		a.GID = gid
	} else {
		m.Groups[u.Name] = a.GID
	}
	m.Users[u.Name] = a
	if !u.NoCreateHome {
		m.put(a.Home, Node{Kind: KindDirectory, Mode: 0o755}, &Owner{User: Name{Name: u.Name}, OwnGroup: true})
	}
}

func (m *model) takeUnit(a Action) {
	change := func(name string, f func(*UnitState)) {
		s := m.Units[name]
		f(&s)
		m.Units[name] = s
	}
	switch a := a.(type) {
	case *Reload:
		for name := range m.Units {
			change(name, func(s *UnitState) { s.Stale = false })
		}
	case *Enable:
		change(a.Unit, func(s *UnitState) { s.Enabled = "enabled" })
	case *Disable:
		change(a.Unit, func(s *UnitState) { s.Enabled = "disabled" })
	case *Start:
		change(a.Unit, func(s *UnitState) { s.Active = "active" })
	case *Stop:
		change(a.Unit, func(s *UnitState) { s.Active = "inactive" })
	default:
		panic(fmt.Sprintf("unknown action %T", a))
	}
}

// settle plans and takes all steps, with a cut before each one in turn, and
// checks that the run after the cut leaves nothing to do.
func settle(t *testing.T, d Desired, o Observed) *model {
	t.Helper()
	opt := Options{Start: true}
	first, err := Make(d, o, opt)
	if err != nil {
		return nil
	}
	var whole *model
	for cut := range len(first.Steps) + 1 {
		m := newModel(o)
		m.Journal.InProgress = d.Hash
		for _, s := range first.Steps[:cut] {
			m.take(s.Action)
		}
		rest, err := Make(d, m.Observed, opt)
		if err != nil {
			t.Fatalf("cut at %d of %d: %v", cut, len(first.Steps), err)
		}
		for _, s := range rest.Steps {
			m.take(s.Action)
		}
		m.Journal = Journal{Applied: d.Hash, Started: d.Hash}
		again, err := Make(d, m.Observed, opt)
		if err != nil {
			t.Fatalf("cut at %d, planned again: %v", cut, err)
		}
		if len(again.Steps) != 0 {
			t.Fatalf("cut at %d of %d: still to do: %+v", cut, len(first.Steps), again.Steps)
		}
		whole = m
	}
	return whole
}

func (m *model) paths() []string {
	return slices.Sorted(maps.Keys(m.Nodes))
}
