package cli

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/site"
)

// authorityFlag holds the flag by which a person says what proves that a backup is of the site.
// Encryption does not: whoever reads the public recipients, which lie beside each backup at a target,
// can encrypt a backup of his own to them.
type authorityFlag struct {
	authority string
}

func (f *authorityFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.authority, "authority", "", "file with the Kubernetes CA of the site: a ca.crt, or a kubeconfig. A backup without the key of one of its certificates is refused")
	_ = cmd.MarkFlagFilename("authority")
}

// authorityWords is in the help of the commands that have the flag.
const authorityWords = `Whoever can write to a target can put a backup of his own there, encrypted to your key. --authority
refuses it: name a file that you have kept, and not one from the target. A kubeconfig of the site is
one, and so is /etc/kubernetes/pki/ca.crt of a control plane. After 'ca rotate kubernetes-ca', older
backups have the former CA; the file may hold both certificates, but none whose key somebody else
may have.`

// ownWords follows authorityWords in the help of the commands that only look into a backup.
const ownWords = `Without --authority the command compares the backup with the CA that this machine has of its site
($KUBECONFIG, else a host's /etc/kubernetes/pki/ca.crt, else ~/.kube/config), and warns of another one.`

// origin is what a backup says of the site that it is of.
type origin struct {
	// Authority is the SHA-256 of the Kubernetes CA whose key is in the backup, as openssl shows it;
	// empty if there is none. The certificate is public. The key shows who made the backup.
	Authority string `json:"authority,omitempty"`
	ClusterID string `json:"clusterID,omitempty"`
}

// originPaths are the files of a host from which its origin follows.
var originPaths = []string{leafcert.KubernetesCA + ".crt", leafcert.KubernetesCA + ".key", site.Path}

// originOf reads the origin out of the files of a backup.
func originOf(files map[string][]byte) origin {
	var o origin
	pair, err := keys.SigningPair(string(files[originPaths[0]]), string(files[originPaths[1]]))
	if err == nil {
		o.Authority = fingerprints([]byte(pair))[0]
	}
	if s, err := site.Unmarshal(files[site.Path]); err == nil {
		o.ClusterID = s.Identity.ClusterID
	}
	return o
}

// withOrigin takes the files from which the origin follows, and gives all members to another reader.
func withOrigin(files map[string][]byte, next archive.Take) archive.Take {
	return func(m archive.Member, contents io.Reader) (err error) {
		if slices.Contains(originPaths, m.Path) {
			files[m.Path], err = io.ReadAll(io.LimitReader(contents, maxHostFile))
			return err
		}
		return next(m, contents)
	}
}

// fingerprints returns those of the certificates of a PEM text.
func fingerprints(data []byte) []string {
	var out []string
	for _, c := range certificates(data) {
		out = append(out, strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(c.Raw)), " ", ":"))
	}
	return out
}

// known returns the fingerprints of the certificates that the flag names; nil without the flag.
func (f *authorityFlag) known() ([]string, error) {
	if f.authority == "" {
		return nil, nil
	}
	known, err := authoritiesIn(f.authority)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--authority: %w", err)}
	}
	if len(known) == 0 {
		return nil, &UsageError{Err: errors.New("--authority: " + f.authority + " has no certificate: name a ca.crt, or a kubeconfig that contains one")}
	}
	return known, nil
}

// authoritiesIn returns the fingerprints of the certificates in a file, or of those in a kubeconfig.
func authoritiesIn(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	known := fingerprints(data)
	if len(known) == 0 {
		if inside, err := kube.Authorities(data); err == nil {
			known = fingerprints(inside)
		}
	}
	return known, nil
}

// hostAuthority is the Kubernetes CA of a control plane, and of a worker. Tests set it.
var hostAuthority = leafcert.KubernetesCA + ".crt"

// ownAuthorities returns the fingerprints of the Kubernetes CA that this machine has of its site, and their file; both
// empty if it has none. The files are those by which commands find their cluster; kubeconfig is the one that a person
// named, empty for none. Beside a named one no other counts: it may be of another site.
func ownAuthorities(kubeconfig string) ([]string, string) {
	files := []string{hostAuthority, kube.HomeKubeconfig}
	if named := cmp.Or(kubeconfig, os.Getenv("KUBECONFIG")); named != "" {
		files = []string{named}
	}
	for _, file := range files {
		if known, err := authoritiesIn(file); err == nil && len(known) > 0 {
			return known, file
		}
	}
	return nil, ""
}

// judge says in one line of which site a backup is. It refuses one that is not of --authority, as compare does. Without
// the flag it compares the backup with what this machine has of its site, and returns of what a person is warned.
func (o origin) judge(id string, known []string, kubeconfig string) (line, warning string, err error) {
	if known != nil {
		return o.tell(known), "", o.compare(id, known)
	}
	own, file := ownAuthorities(kubeconfig)
	switch {
	case o.Authority == "":
		return o.tell(nil), unproven(id), nil
	case file == "":
		return o.tell(nil), fmt.Sprintf("nobody has compared whose backup %s is: name the Kubernetes CA of your site with --authority before you trust what is in it", id), nil
	case slices.Contains(own, o.Authority):
		if slices.ContainsFunc(own, func(one string) bool { return one != o.Authority }) {
			warning = fmt.Sprintf("%s has several Kubernetes CAs, and %s has the key of one of them. If one was replaced because its key leaked, name the other alone with --authority: whoever has that key can make such a backup", file, id)
		}
		return o.line() + ", as " + file + " says", warning, nil
	}
	return o.line() + ", which " + file + " does not have",
		fmt.Sprintf("%s is not of the site of %s: its Kubernetes CA has the SHA-256 %s. If it is of another site of yours, or from before the CA was replaced, name a ca.crt or a kubeconfig of that with --authority; else trust nothing of it",
			id, file, o.Authority), nil
}

// unproven says of a backup without an authority that it may be anybody's.
func unproven(id string) string {
	return fmt.Sprintf("nothing proves that %s is of your site: it has no Kubernetes CA with its key, which each backup of a site has", id)
}

// compare refuses a backup that has not the key of any known CA. Without the flag it refuses none.
func (o origin) compare(id string, known []string) error {
	switch {
	case known == nil || slices.Contains(known, o.Authority):
		return nil
	case o.Authority == "":
		return coded(command.ExitRefused, "refused: %s", unproven(id))
	}
	return coded(command.ExitRefused, "refused: %s is not of the site of --authority: its Kubernetes CA has the SHA-256 %s, and the file has %s. "+
		"If the CA was replaced between the backup and the file, take a ca.crt or a kubeconfig of the backup's time",
		id, o.Authority, strings.Join(known, ", "))
}

// tell says of which site a backup is, in one line. What a backup says may be forged, also to look like
// another line.
func (o origin) tell(known []string) string {
	if known == nil {
		return o.line() + "; whether it is of your site was not compared (--authority)"
	}
	return o.line() + ", as --authority says"
}

func (o origin) line() string {
	ca := "no Kubernetes CA with its key"
	if o.Authority != "" {
		ca = "Kubernetes CA with SHA-256 " + o.Authority
	}
	return fmt.Sprintf("%s, cluster id %q", ca, o.ClusterID)
}
