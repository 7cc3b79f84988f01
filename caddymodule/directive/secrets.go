package directive

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
)

// Secrets returns the secrets from which a directive derives its keys, the current one first. The previous one may be empty. Variable is the name of an
// environment variable for the message if there is none.
func Secrets(directive, variable, current, previous string) (secrets []string, err error) {
	if current == "" {
		return nil, fmt.Errorf("%s needs a secret, from which its keys are derived: create one with `openssl rand -base64 32`, and write: secret {env.%s}", directive, variable)
	}
	for i, configured := range []string{current, previous} {
		secret, err := caddy.NewReplacer().ReplaceOrErr(configured, i == 0, true)
		switch {
		case err != nil:
			return nil, fmt.Errorf("secret: %w", err)
		case i > 0 && secret == "":
		case len(secret) < MinSecret:
			return nil, fmt.Errorf("the secret has %d bytes and needs at least %d; create one with `openssl rand -base64 32`", len(secret), MinSecret)
		default:
			secrets = append(secrets, secret)
		}
	}
	return secrets, nil
}

// ReadSecrets reads the subdirective secret: the secret and, while it is being replaced, the one before.
func (b *Block) ReadSecrets(current, previous *string) error {
	if err := b.Once(); err != nil {
		return err
	}
	arguments := b.RemainingArgs()
	if len(arguments) == 0 || len(arguments) > 2 {
		return b.Err("secret takes the secret and, while it is being replaced, the one before")
	}
	if *current = arguments[0]; *current == "" {
		return b.Err("the value is empty")
	}
	if len(arguments) == 2 {
		*previous = arguments[1]
	}
	return nil
}
