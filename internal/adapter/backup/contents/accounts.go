package contents

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/backup/objects"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// accountsPrefix begins the keys of the Secrets that hold accounts of BMCs; the name of the host
// follows.
const accountsPrefix = objects.Root + "secrets/" + manifests.NamespaceEtcd + "/" + manifests.FencingSecretPrefix

// Passwords returns the passwords of BMCs that the cluster keeps, by the names of their hosts. It
// names no value in an error. unread says of hosts why theirs cannot be read.
func (s *Snapshot) Passwords(ctx context.Context, keys Keys) (passwords map[string]secret.Text, unread []string, err error) {
	passwords = map[string]secret.Text{}
	err = s.Each(ctx, accountsPrefix, func(v Value) error {
		host := strings.TrimPrefix(v.Key, accountsPrefix)
		password, err := passwordIn(v, keys)
		if err != nil {
			unread = append(unread, fmt.Sprintf("the account of the BMC of %s: %v", host, err))
			return nil // it is told
		}
		passwords[host] = password
		return nil
	})
	return passwords, unread, err
}

func passwordIn(v Value, keys Keys) (secret.Text, error) {
	place, ok := objects.PlaceOf(v.Key)
	if !ok {
		return "", fmt.Errorf("%s is no key of an object", v.Key)
	}
	o, err := decode(place, v, keys)
	if err != nil {
		return "", err
	}
	data, _ := o.Content["data"].(map[string]any)
	text, _ := data["password"].(string)
	password, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(password) == 0 {
		return "", fmt.Errorf("no password in Secret %s", o.Path()) // the cause would quote it
	}
	return secret.Text(password), nil
}
