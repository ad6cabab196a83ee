package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/secret"
)

// maxReplicas is the largest number of nodes that Kubernetes supports.
const maxReplicas = 5000

// twoNodeReplicas is the number of control planes that need fencing.
const twoNodeReplicas = 2

// allowedControlPlanes lists the sizes of an etcd cluster that make sense here.
var allowedControlPlanes = []int{1, 2, 3, 5}

var architectures = []string{"amd64", "arm64"}

func (v *validator) controlPlane() {
	path := field.NewPath("controlPlane")
	pool := v.c.ControlPlane
	if pool.Name != ControlPlanePool {
		v.add(field.NotSupported(path.Child("name"), pool.Name, []string{ControlPlanePool}))
	}
	v.architecture(path, pool)
	if v.readable("controlPlane.replicas") {
		v.controlPlaneReplicas(path.Child("replicas"))
		v.fencing(path.Child("fencing"))
	}
}

func (v *validator) architecture(path *field.Path, pool MachinePool) {
	if pool.Architecture != "" && !slices.Contains(architectures, pool.Architecture) {
		v.add(field.NotSupported(path.Child("architecture"), pool.Architecture, architectures))
	}
}

func (v *validator) controlPlaneReplicas(path *field.Path) {
	n := v.c.ControlPlaneReplicas()
	switch {
	case slices.Contains(allowedControlPlanes, n):
	case n == 4:
		v.add(field.Invalid(path, n, "four control planes survive the loss of one, as three do: use 3, or 5 to survive two"))
	default:
		v.add(field.Invalid(path, n, "must be 1, 2, 3 or 5"))
	}
}

func (v *validator) compute() {
	root := field.NewPath("compute")
	for i, pool := range v.c.Compute {
		path := root.Index(i)
		switch {
		case pool.Name != ComputePool:
			v.add(field.NotSupported(path.Child("name"), pool.Name, []string{ComputePool}))
		case i > 0 && v.c.Compute[0].Name == ComputePool:
			v.add(duplicate(path.Child("name"), pool.Name, root.Index(0).Child("name")))
		}
		if n := replicas(pool); n < 0 || n > maxReplicas {
			v.add(field.Invalid(path.Child("replicas"), n, fmt.Sprintf("must be between 0 and %d", maxReplicas)))
		}
		if pool.Fencing != nil {
			v.add(field.Forbidden(path.Child("fencing"), "only control planes are fenced: give it in controlPlane.fencing"))
		}
		v.architecture(path, pool)
		if want := v.c.ControlPlane.Architecture; pool.Architecture != "" && pool.Architecture != want {
			v.add(field.Invalid(path.Child("architecture"), pool.Architecture,
				fmt.Sprintf("must be the same as controlPlane.architecture, %q", want)))
		}
	}
}

// fencing checks the accounts with which two control planes switch each other
// off. Other numbers of control planes have none.
func (v *validator) fencing(path *field.Path) {
	fencing := v.c.ControlPlane.Fencing
	two := v.c.ControlPlaneReplicas() == twoNodeReplicas
	list := path.Child("credentials")
	switch {
	case fencing == nil || len(fencing.Credentials) == 0:
		if two && v.readable("controlPlane.fencing") {
			v.add(field.Required(list,
				"two control planes have no majority, so each must be able to switch the other off: give the BMC of both hosts "+
					"(an arbiter instead is not supported), or use 1, 3 or 5 control planes"))
		}
		return
	case !two:
		v.add(field.Forbidden(path, fmt.Sprintf(
			"is for exactly two control planes, and there %s", areOrIs(v.c.ControlPlaneReplicas()))))
	case len(fencing.Credentials) != twoNodeReplicas:
		v.add(field.Forbidden(list, fmt.Sprintf(
			"exactly two entries are needed, one for each control plane; there %s", areOrIs(len(fencing.Credentials)))))
	}
	if bm := v.c.Platform.BareMetal; bm != nil && len(bm.Hosts) > 0 {
		v.add(field.Forbidden(field.NewPath("platform", "baremetal", "hosts"),
			"cannot be given together with controlPlane.fencing: only Pacemaker may switch these hosts"))
	}
	v.credentials(list, fencing.Credentials)
}

func areOrIs(n int) string {
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}

func (v *validator) credentials(list *field.Path, credentials []FencingCredential) {
	var names []namedAt
	var bmcs []bmcAt
	for i, cred := range credentials {
		path := list.Index(i)
		if cred.HostName == "" {
			v.add(field.Required(path.Child("hostName"), "missing hostName: the name of the node that this BMC powers"))
		} else {
			names = append(names, namedAt{cred.HostName, path.Child("hostName")})
		}
		bmcs = v.appendBMC(bmcs, path.Child("address"), cred.Address)
		v.username(path.Child("username"), cred.Username)
		v.password(path.Child("password"), cred.Password)
		verification := []string{bmc.VerificationDisabled, bmc.VerificationEnabled}
		if !slices.Contains(verification, cred.CertificateVerification) {
			v.add(field.NotSupported(path.Child("certificateVerification"), cred.CertificateVerification, verification))
		}
		if f := cred.CertificateFingerprint; f != "" && !bmc.IsFingerprint(f) {
			v.add(field.Invalid(path.Child("certificateFingerprint"), f, "must be the SHA-256 of the BMC's certificate in hex, 64 digits, with or without colons"))
		}
		if tls := []string{bmc.TLSDefault, bmc.TLSLegacy}; cred.TLS != "" && !slices.Contains(tls, cred.TLS) {
			v.add(field.NotSupported(path.Child("tls"), cred.TLS, tls))
		}
		v.systemID(path.Child("systemID"), cred.SystemID, credentials[:i])
	}
	v.hostNames(names)
	v.distinctBMCs(bmcs)
}

// systemID checks the identity that a BMC reports according to the person. It
// tells one host from the other, so they must differ.
func (v *validator) systemID(path *field.Path, id string, before []FencingCredential) {
	switch {
	case id == "":
	case strings.TrimSpace(id) != id || strings.ContainsFunc(id, unicode.IsControl) || len(id) > maxSystemID:
		v.add(field.Invalid(path, id, fmt.Sprintf("must be the UUID or the serial number that the BMC reports, at most %d bytes, with no space around it", maxSystemID)))
	case slices.ContainsFunc(before, func(c FencingCredential) bool { return strings.EqualFold(c.SystemID, id) }):
		v.add(field.Duplicate(path, id))
	}
}

// maxSystemID is longer than any UUID or serial number.
const maxSystemID = 128

// bmcAt is a BMC's address with its place in the file.
type bmcAt struct {
	address bmc.Address
	path    *field.Path
	text    string
}

func (v *validator) appendBMC(list []bmcAt, path *field.Path, text string) []bmcAt {
	if text == "" {
		v.add(field.Required(path, "missing address: the Redfish URL of the host's BMC"))
		return list
	}
	address, err := bmc.Parse(text)
	if err != nil {
		v.add(bmcError(path, text, err))
		return list
	}
	v.bmcPlace(path, text, address)
	return append(list, bmcAt{address, path, text})
}

// bmcError shows the address only if no part of it can be a secret.
func bmcError(path *field.Path, text string, err error) *field.Error {
	if errors.Is(err, bmc.ErrForm) {
		return invalid(path, err.Error())
	}
	return field.Invalid(path, redactUserinfo(text), err.Error())
}

func (v *validator) distinctBMCs(list []bmcAt) {
	for j := range list {
		for _, first := range list[:j] {
			if first.address.SameSystem(list[j].address) {
				v.add(duplicate(list[j].path, list[j].text, first.path))
				break
			}
		}
	}
}

func (v *validator) username(path *field.Path, name string) {
	switch {
	case name == "":
		v.add(field.Required(path, "missing username"))
	case strings.Contains(name, ":"):
		v.add(invalid(path, "must not hold a colon: HTTP sends name and password joined by one"))
	case strings.ContainsFunc(name, unicode.IsControl) || name != strings.TrimSpace(name):
		v.add(invalid(path, "must not hold control characters, nor begin or end with a space: fence agents would lose them"))
	}
}

func (v *validator) password(path *field.Path, password secret.Text) {
	text := password.Reveal()
	switch {
	case text == "":
		v.add(field.Required(path, "missing password"))
	case text == secret.Redacted:
		v.add(invalid(path, "is the text printed in place of a password, not a password"))
	case strings.ContainsFunc(text, unicode.IsControl) || text != strings.TrimSpace(text):
		v.add(invalid(path, "must not hold control characters, nor begin or end with a space: fence agents would lose them"))
	}
}
