package contents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/nacl/secretbox"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// sitePath is the file of a host that has the root of its keys.
const sitePath = "/etc/holdfast/site.json"

// An encrypted value begins with encrypted, then the provider and the name of the key, each with a
// colon behind it. secretbox has a nonce of nonceLength bytes before the box.
const (
	encrypted       = "k8s:enc:"
	secretboxPrefix = encrypted + "secretbox:v1:"
	keyLength       = 32
	nonceLength     = 24
)

// Keys are those with which API servers encrypted values of etcd. It is never printed.
type Keys struct {
	byName map[string][keyLength]byte
	// root is the one from which keys follow that the file of the API server no longer has.
	root []byte
}

// KeyFiles returns the paths of the files of a host that KeysOf reads.
func KeyFiles() []string { return []string{apiserver.EncryptionPath, sitePath} }

// KeysOf reads the keys from the files of a host, by path. No error quotes a file.
func KeysOf(files map[string][]byte) (Keys, error) {
	k := Keys{byName: map[string][keyLength]byte{}}
	if text, there := files[sitePath]; there {
		var site struct {
			EncryptionRoot []byte `json:"encryptionRoot"`
		}
		if json.Unmarshal(text, &site) != nil {
			return Keys{}, fmt.Errorf("%s of the backup is not readable", sitePath)
		}
		k.root = site.EncryptionRoot
	}
	if text, there := files[apiserver.EncryptionPath]; there {
		if err := k.add(text); err != nil {
			return Keys{}, err
		}
	}
	return k, nil
}

// add adds the keys in the file of an API server.
func (k Keys) add(text []byte) error {
	var c apiserverv1.EncryptionConfiguration
	if yaml.Unmarshal(text, &c) != nil {
		return fmt.Errorf("%s of the backup is not readable", apiserver.EncryptionPath)
	}
	for _, r := range c.Resources {
		for _, p := range r.Providers {
			if p.Secretbox == nil {
				continue
			}
			for _, one := range p.Secretbox.Keys {
				secret, err := base64.StdEncoding.DecodeString(one.Secret)
				if err != nil || len(secret) != keyLength {
					return fmt.Errorf("%s of the backup has a key %s that is none", apiserver.EncryptionPath, one.Name)
				}
				k.byName[one.Name] = [keyLength]byte(secret)
			}
		}
	}
	return nil
}

// key returns a key by its name.
func (k Keys) key(name string) ([keyLength]byte, bool) {
	if key, there := k.byName[name]; there {
		return key, true
	}
	number, ours := apiserver.KeyNumber(name)
	if !ours || len(k.root) == 0 {
		return [keyLength]byte{}, false
	}
	file, err := apiserver.Encryption(k.root, []int{number})
	if err != nil || k.add(file.Data) != nil {
		return [keyLength]byte{}, false
	}
	key, there := k.byName[name]
	return key, there
}

// open decrypts a value.
func (k Keys) open(value []byte) ([]byte, error) {
	rest, ours := bytes.CutPrefix(value, []byte(secretboxPrefix))
	if !ours {
		provider, _, _ := strings.Cut(string(value[len(encrypted):min(len(value), len(encrypted)+32)]), ":")
		return nil, fmt.Errorf("it is encrypted by %q, which this build does not read", provider)
	}
	name, box, found := bytes.Cut(rest, []byte(":"))
	if !found || len(box) < nonceLength {
		return nil, errors.New("it is encrypted, and ends early")
	}
	key, there := k.key(string(name))
	if !there {
		return nil, fmt.Errorf("it is encrypted with the key %q, which the backup does not have", name)
	}
	plain, whole := secretbox.Open(nil, box[nonceLength:], (*[nonceLength]byte)(box), &key)
	if !whole {
		return nil, fmt.Errorf("the key %q of the backup does not open it", name)
	}
	return plain, nil
}
