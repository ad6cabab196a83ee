package plan

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

func (m *maker) groups() {
	for _, g := range m.d.Groups {
		gid, exists := m.o.Groups[g.Name]
		switch {
		case g.Absent && exists:
			m.fault(g.Field, "group %q exists on this host; accounts are not removed", g.Name)
		case g.Absent:
		case exists && g.GID != nil && *g.GID != gid:
			m.fault(g.Field+".gid", "group %q has the number %d on this host", g.Name, gid)
		case !exists:
			m.step(Step{ID: "group:" + g.Name, Kind: StepGroup, Why: "absent", Action: &CreateGroup{Group: g}})
		}
	}
}

func (m *maker) users() {
	for _, u := range m.d.Users {
		account, exists := m.o.Users[u.Name]
		switch {
		case u.Absent && exists:
			m.fault(u.Field, "user %q exists on this host; accounts are not removed", u.Name)
			continue
		case u.Absent:
			continue
		case exists:
			m.changeUser(u, account)
			m.home(u, account)
		default:
			m.step(Step{ID: "user:" + u.Name, Kind: StepUser, Why: "absent", Action: &CreateUser{User: u}})
		}
		m.memberships(u)
		if u.PasswordHash != "" && u.PasswordHash != account.PasswordHash {
			m.step(Step{
				ID: "password:" + u.Name, Kind: StepUser, Why: "other password", Diff: "password (not shown)\n",
				Action: &SetPassword{Name: u.Name, Hash: u.PasswordHash},
			})
		}
		m.keys(u)
	}
}

// memberships checks that the groups of a user exist or will exist.
func (m *maker) memberships(u User) {
	for _, g := range distinct(append(slices.Clone(u.Groups), u.PrimaryGroup)) {
		if _, exists := m.o.Groups[g]; !exists && !m.groupNameComes(g) {
			m.fault(u.Field+".groups", "this host has no group %q and the configuration adds none", g)
		}
	}
}

// changeUser reconciles the properties of an account that can change without
// affecting what it owns.
func (m *maker) changeUser(u User, a Account) {
	if u.UID != nil && *u.UID != a.UID {
		m.fault(u.Field+".uid", "user %q has the number %d on this host", u.Name, a.UID)
	}
	if u.Home != "" && u.Home != a.Home {
		m.fault(u.Field+".homeDir", "user %q lives in %s on this host", u.Name, a.Home)
	}
	if gid, ok := m.o.Groups[u.PrimaryGroup]; u.PrimaryGroup != "" && (!ok || gid != a.GID) {
		m.fault(u.Field+".primaryGroup", "user %q has another primary group on this host", u.Name)
	}
	change := ChangeUser{Name: u.Name}
	var why []string
	if u.Shell != "" && u.Shell != a.Shell {
		change.Shell = u.Shell
		why = append(why, "shell is "+a.Shell)
	}
	for _, g := range u.Groups {
		if !slices.Contains(a.Groups, g) {
			change.AddGroups = append(change.AddGroups, g)
			why = append(why, "not in group "+g)
		}
	}
	if len(why) > 0 {
		m.step(Step{ID: "user:" + u.Name, Kind: StepUser, Why: strings.Join(why, ", "), Action: &change})
	}
}

// home creates the home directory of an account whose creation was cut.
func (m *maker) home(u User, a Account) {
	if u.NoCreateHome || m.o.Nodes[a.Home].Kind != KindAbsent || !m.usable(u.Field, a.Home, m.o.Nodes[a.Home]) {
		return
	}
	m.step(Step{
		ID: "directory:" + a.Home, Kind: StepDirectory, Path: a.Home, Why: "home of " + u.Name + " is absent",
		Action: &MakeDirectory{Path: a.Home, Mode: 0o700, Owner: &Owner{User: Name{Name: u.Name}, OwnGroup: true}},
	})
}

// keysFile is the file below .ssh that sshd reads by default.
const keysFile = "authorized_keys"

// keyLines returns the lines around the keys that a configuration gives a user.
// Keys outside of them are the user's own, or another configuration's.
func keyLines(of string) (begin, end string) {
	begin, end = "# begin: managed by holdfast", "# end: managed by holdfast"
	if of != "" {
		begin, end = begin+" for "+of, end+" for "+of
	}
	return begin + ", changes are lost\n", end + "\n"
}

func homeOf(u User, users map[string]Account) string {
	switch account, exists := users[u.Name]; {
	case exists:
		return account.Home
	case u.Home != "":
		return u.Home
	case u.Name == "root":
		return "/root"
	default:
		return "/home/" + u.Name
	}
}

func (m *maker) keys(u User) {
	dir := path.Join(homeOf(u, m.o.Users), ".ssh")
	file := path.Join(dir, keysFile)
	dirNode, node := m.o.Nodes[dir], m.o.Nodes[file]
	want := mergeKeys(node.Data, u)
	owner := &Owner{User: Name{Name: u.Name}, OwnGroup: true}
	field := u.Field + ".sshAuthorizedKeys"
	if len(u.Keys) == 0 && bytes.Equal(want, node.Data) {
		return
	}
	// With a link, the user could choose what root reads and writes.
	for p, n := range map[string]Node{dir: dirNode, file: node} {
		if n.Kind == KindLink || n.Kind == KindOther || !m.usable(field, p, n) {
			m.fault(field, "%s is a %s on this host, and such a path is not followed", p, n.Kind)
			return
		}
	}
	if dirNode.Kind == KindAbsent || !m.asWanted(field, 0o700, owner, dirNode) {
		m.step(Step{
			ID: "directory:" + dir, Kind: StepDirectory, Path: dir, Why: "for keys of " + u.Name,
			Diff: modeDiff(dirNode, 0o700), Action: &MakeDirectory{Path: dir, Mode: 0o700, Owner: owner},
		})
	}
	if node.Kind == KindAbsent || !bytes.Equal(want, node.Data) || !m.asWanted(field, 0o600, owner, node) {
		m.step(Step{
			ID: "keys:" + u.Name, Kind: StepFile, Path: file, Why: "other keys",
			// Public keys are better shown than hidden.
			Diff:   textDiff(file, node.Data, want) + modeDiff(node, 0o600),
			Action: &WriteFile{Path: file, Data: want, Mode: 0o600, Owner: owner},
		})
	}
}

// mergeKeys returns an authorized_keys file with a user's keys in its managed part
// and all other lines unchanged.
func mergeKeys(old []byte, u User) []byte {
	begin, end := keyLines(u.KeysOf)
	before, after := string(old), ""
	if head, rest, ok := strings.Cut(before, begin); ok {
		before, after = head, ""
		if _, tail, ok := strings.Cut(rest, end); ok {
			after = tail
		}
	}
	if len(u.Keys) == 0 {
		return []byte(before + after)
	}
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return []byte(before + begin + strings.Join(u.Keys, "\n") + "\n" + end + after)
}
