/*
 * C++: prints the surprisal of each token, −log₂ of the probability that the model gave it after those before it.
 *
 *     c++ -o tokens tokens.cpp $(pkg-config --cflags --libs attn)
 *     ./tokens model.gguf "The Eiffel Tower is in Paris"
 */
#include <attn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Close {
    void operator()(AttnModel *model) const { attn_model_close(model); }
    void operator()(AttnSession *session) const { attn_session_free(session); }
};

static std::vector<int32_t> tokenize(const AttnModel *model, const std::string &text, AttnError *error) {
    size_t n = 0; /* once to count them, once to get them */
    attn_tokenize(model, text.data(), text.size(), ATTN_TOKENIZE_ENDS, nullptr, 0, &n, error);
    std::vector<int32_t> tokens(n);
    attn_tokenize(model, text.data(), text.size(), ATTN_TOKENIZE_ENDS, tokens.data(), n, &n, error);
    return tokens;
}

static double surprisal_bits(const float *logits, size_t n_vocab, int32_t token) {
    double sum = 0, largest = *std::max_element(logits, logits + n_vocab);
    for (size_t i = 0; i < n_vocab; i++) sum += std::exp(logits[i] - largest);
    return (largest - logits[token] + std::log(sum)) / std::log(2.0);
}

static void print_surprisals(const char *path, const std::string &text) {
    AttnError error = {"the text is empty"};
    std::unique_ptr<AttnModel, Close> model(attn_model_open(path, nullptr, &error));
    std::unique_ptr<AttnSession, Close> session(attn_session_new(model.get(), nullptr, &error));
    std::vector<int32_t> tokens = tokenize(model.get(), text, &error);
    size_t n = tokens.size(), n_vocab = attn_model_shape(model.get()).n_vocab;
    std::vector<float> logits(n * n_vocab);
    if (n == 0 || !attn_feed(session.get(), tokens.data(), n, logits.data(), n, &error))
        throw std::runtime_error(error.message);
    for (size_t i = 1; i < n; i++) {
        size_t length;
        const char *piece = attn_token_text(model.get(), tokens[i], &length);
        std::printf("%7.3f  \"%.*s\"\n", surprisal_bits(&logits[(i - 1) * n_vocab], n_vocab, tokens[i]),
                    static_cast<int>(length), piece);
    }
}

int main(int argc, char **argv) try {
    if (argc != 3) throw std::runtime_error("usage: tokens MODEL TEXT");
    print_surprisals(argv[1], argv[2]);
    return 0;
} catch (const std::exception &failure) {
    std::fprintf(stderr, "tokens: %s\n", failure.what());
    return 1;
}
